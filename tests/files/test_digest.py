"""Equal values have equal digests, whatever the order of their keys."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solfa.files.digest import canonical_json, file_sha256, value_sha256


@given(values=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers() | st.booleans()))
def test_the_order_of_keys_does_not_matter(values: dict[str, int]) -> None:
    turned = dict(reversed(values.items()))
    assert canonical_json(values) == canonical_json(turned)
    assert value_sha256(values) == value_sha256(turned)


def test_spelling_is_fixed() -> None:
    assert canonical_json({"b": [1, None, "é"], "a": 0.5}) == '{"a":0.5,"b":[1,null,"é"]}'.encode()
    assert value_sha256({}) == hashlib.sha256(b"{}").hexdigest()
    assert value_sha256({"a": 1}) != value_sha256({"a": "1"})


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"a": float("nan")})


def test_a_file_is_hashed_by_its_content(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5000
    (tmp_path / "x").write_bytes(content)
    assert file_sha256(tmp_path / "x") == hashlib.sha256(content).hexdigest()
