"""`solfa duplicates` and `solfa fingerprint` as they are typed: what they print, write and exit with."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import SolfaMain
from tests.data.copies_maker import encode_collection, write_collection


@pytest.fixture(scope="module")
def takes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with copies, without fingerprints at first."""
    return encode_collection(write_collection(tmp_path_factory.mktemp("typed") / "audio"), fingerprints=False)


def test_copies_are_listed_once_there_are_fingerprints(solfa_main: SolfaMain, takes: Path, tmp_path: Path) -> None:
    code, said = solfa_main("duplicates", takes)
    assert code == 2 and "solfa fingerprint" in said
    code, said = solfa_main("fingerprint", takes, "--source", tmp_path)
    assert code == 2 and "--source" in said
    assert solfa_main("fingerprint", takes, "--source", takes.parent / "audio", "--num-workers", 0)[0] == 0
    code, said = solfa_main("fingerprint", takes, "--source", takes.parent / "audio")
    assert code == 0 and "nothing to do" in said
    page, found = tmp_path / "copies.html", tmp_path / "copies.json"
    code, said = solfa_main("duplicates", takes, "--page", page, "--json", found)
    assert code == 1
    assert "copy.wav" in said and "2 clusters" in said
    assert page.read_text().count("<audio") == 8
    read = json.loads(found.read_text())
    assert len(read["pairs"]) == 4 and len(read["clusters"]) == 2
    code, said = solfa_main("duplicates", takes, takes)
    assert code == 1 and "copy.wav" in said


def test_damaged_fingerprints_are_made_again_once_they_are_removed(solfa_main: SolfaMain, tmp_path: Path) -> None:
    made = encode_collection(write_collection(tmp_path / "audio"))
    (path,) = (made / "landmarks").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    code, said = solfa_main("verify", made)
    assert code == 1 and "solfa fingerprint" in said and "--repair" not in said  # which would not do it
    path.unlink()
    assert solfa_main("fingerprint", made, "--source", tmp_path / "audio", "--num-workers", 0)[0] == 0
    assert path.read_bytes() == whole and solfa_main("verify", made)[0] == 0


def test_none_found_is_exit_code_0(solfa_main: SolfaMain, tmp_path: Path) -> None:
    audio = write_collection(tmp_path / "audio")
    for name in ("copy.wav", "loop.wav"):
        (audio / name).unlink()
    code, said = solfa_main("duplicates", encode_collection(audio))
    assert code == 0 and "0 pairs" in said
