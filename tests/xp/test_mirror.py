"""A mirror is a copy from which a run continues, wherever it was interrupted; tried with a folder and a real bucket."""

import json
import logging
from pathlib import Path

import pytest

from solfa.errors import ConfigError, StoreError
from solfa.files import LocalStore, Store, store_at
from solfa.xp import mirror_writer
from solfa.xp.mirror import PROGRESS, RunProgress, clear_mirror, mirror_of, restore_folder
from solfa.xp.mirror_writer import MirrorWriter


@pytest.fixture(params=["folder", "bucket"])
def mirror(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return mirror_of(str(tmp_path / "away") if request.param == "folder" else request.getfixturevalue("bucket"), "SIG")


NAMES = {"last": "checkpoint.pt", "best": "best.pt", "clip": "samples/3/a.wav"}


def write(folder: Path, **files: str) -> None:
    for name, content in files.items():
        path = folder / NAMES.get(name, f"{name}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}")
        temporary.write_text(content)
        temporary.replace(path)


def keys(store: Store) -> dict[str, str]:
    return {entry.key: store.read(entry.key).decode() for entry in store.list() if not entry.key.startswith(".tmp/")}


def test_what_was_saved_comes_back_when_the_folder_is_gone(mirror: Store, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    write(one, last="state 1", best="best 1", history="[]", failure="{}")
    with MirrorWriter(mirror, one) as copying:
        copying.begin(RunProgress(1, 0))
        write(one, last="state 2", clip="sound", config="{}")
        (one / "checkpoint_0001.pt").write_text("state 1")
        copying.update(RunProgress(2, 0))
    copied = keys(mirror)
    assert json.loads(copied.pop(PROGRESS)) == {"epoch": 2, "num_updates": 0}
    assert copied.pop("checkpoint.pt") == "state 2" and copied.pop("samples/3/a.wav") == "sound"
    assert copied.keys() == {"best.pt", "history.json", "config.json", "checkpoint_0001.pt"}
    assert [path for path in one.iterdir() if path.name.startswith(".mirror.")] == []
    assert restore_folder(mirror, other)
    names = {*copied, "checkpoint.pt", "samples/3/a.wav"}
    assert {name: (other / name).read_text() for name in names} == {name: (one / name).read_text() for name in names}
    assert not restore_folder(mirror, other)
    before = {entry.key: entry[2:] for entry in mirror.list() if entry.key != PROGRESS}
    (other / "checkpoint_0001.pt").unlink()
    with MirrorWriter(mirror, other) as copying:
        copying.begin(RunProgress(2, 0))
        write(other, history="[{}]")
        copying.update(RunProgress(2, 0))
    after = {entry.key: entry[2:] for entry in mirror.list() if entry.key != PROGRESS}
    # Only what has changed was copied again, and what is no longer kept is gone.
    assert {name for name in after if after[name] != before[name]} == {"history.json"}
    assert before.keys() - after.keys() == {"checkpoint_0001.pt"}


def test_a_mirror_that_is_further_is_not_overwritten(tmp_path: Path) -> None:
    store, folder = LocalStore(tmp_path / "away"), tmp_path / "here"
    write(folder, last="epoch 5")
    store.replace(PROGRESS, b'{"epoch": 9, "num_updates": 3}')
    store.replace("checkpoint.pt", b"epoch 9")
    with pytest.raises(ConfigError, match=r"epoch 5.*epoch 9 after 3 updates.*remove this folder"):
        MirrorWriter(store, folder).begin(RunProgress(5, 0))
    assert store.read("checkpoint.pt") == b"epoch 9"
    clear_mirror(store)
    assert not restore_folder(store, tmp_path / "new")


def test_keys_that_lead_elsewhere_are_left_alone(tmp_path: Path) -> None:
    store, folder = LocalStore(tmp_path / "away"), tmp_path / "here"
    folder.mkdir()
    (tmp_path / "mine").mkdir()
    (folder / "samples").symlink_to(tmp_path / "mine")
    for key in ("checkpoint.pt", "samples/3/a.wav", "setup.py", "tensorboard/x"):
        store.replace(key, b"x")
    assert restore_folder(store, folder)
    assert {path.name for path in folder.iterdir()} == {"checkpoint.pt", "samples", ".mirrored.json"}
    assert not any((tmp_path / "mine").iterdir())


def test_a_mirror_that_is_away_does_not_stop_the_run_but_its_end_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mirror_writer, "RETRY_SECONDS", 0.01)
    away, folder = tmp_path / "away", tmp_path / "here"
    store = LocalStore(away)
    write(folder, last="state 1")
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(StoreError, match=r"mirror.*same command copies"),
        MirrorWriter(store, folder) as copying,
    ):
        copying.begin(None)
        (away / PROGRESS).unlink()
        (away / ".tmp").rmdir()
        away.rmdir()
        away.write_text("a file in its place")
        copying.update(RunProgress(1, 0))
    assert "the mirror is behind" in caplog.text
    assert [path.name for path in folder.iterdir()] == ["checkpoint.pt"]
    away.unlink()
    with MirrorWriter(store, folder) as copying:
        copying.begin(RunProgress(1, 0))
    assert keys(store)["checkpoint.pt"] == "state 1"


def test_a_place_that_cannot_be_a_mirror_is_refused_at_once(tmp_path: Path, bucket: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"file"):
        MirrorWriter(LocalStore(tmp_path / "file"), tmp_path).begin(None)
    with pytest.raises(StoreError, match="there is no s3://no-such-bucket"):
        MirrorWriter(store_at("s3://no-such-bucket/x"), tmp_path).begin(None)
