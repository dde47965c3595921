"""Any file name becomes printable text and comes back as the same bytes."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.files.printable_names import escape_path, unescape_path

NAMES = st.binary(min_size=1, max_size=40).map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"_"))
WORDS = st.text(min_size=1, max_size=20).map(lambda text: text.encode("utf-8", "replace").replace(b"/", b"_"))


@given(name=(NAMES | WORDS).filter(lambda name: name not in (b".", b"..") and b"\0" not in name))
def test_every_name_is_printable_and_comes_back(name: bytes) -> None:
    text = escape_path(os.fsdecode(name))
    assert text.isprintable()
    assert text.encode().decode() == text
    assert os.fsencode(unescape_path(text)) == name


@given(first=NAMES, second=NAMES)
def test_different_names_stay_different(first: bytes, second: bytes) -> None:
    same = escape_path(os.fsdecode(first)) == escape_path(os.fsdecode(second))
    assert same == (first == second)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"plain/name 1.wav", "plain/name 1.wav"),
        ("déjà/vu ☕.wav".encode(), "déjà/vu ☕.wav"),
        (b"a\nb.wav", "a%0Ab.wav"),
        (b"100%.wav", "100%25.wav"),
        (b"%41.wav", "%2541.wav"),
        (b"\xff\xfe.wav", "%FF%FE.wav"),
        (b"\x1b[31mred", "%1B[31mred"),
        ("right\u202eleft".encode(), "right%E2%80%AEleft"),
    ],
)
def test_known_spellings(name: bytes, text: str) -> None:
    assert escape_path(Path(os.fsdecode(name))) == text
    assert os.fsencode(unescape_path(text)) == name


def test_an_escaped_name_finds_the_file(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff\n%.wav"))
    path.write_bytes(b"x")
    (found,) = tmp_path.iterdir()
    assert unescape_path(escape_path(found)).read_bytes() == b"x"
