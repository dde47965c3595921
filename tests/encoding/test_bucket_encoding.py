"""Encoding into a real object store gives the bytes of a local run, however often it is interrupted."""

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from solfa import encode, load_codec, open_dataset
from solfa.encoding.legacy_import import import_legacy
from solfa.encoding.repair import repair_dataset
from solfa.errors import StoreError
from solfa.files import store_at
from solfa.store.export.dataset_export import export_dataset
from solfa.store.export.format_names import ExportFormat
from solfa.store.layout import committed_shards
from solfa.store.verification import verify
from tests.conftest import write_tone
from tests.encoding import put_in_the_air

ROOT = Path(__file__).parents[2]
MULAW = "mulaw:sample_rate=4000"


def objects(url: str) -> dict[str, str]:
    store = store_at(url)
    keys = [entry.key for entry in store.list() if not entry.key.startswith(".tmp/")]
    return {key: hashlib.sha256(store.read(key)).hexdigest() for key in keys}


def test_the_dataset_is_that_of_a_local_run_and_can_be_continued(
    bucket: str, audio_folder: Path, tmp_path: Path, digest: Callable[[Path], dict[str, str]]
) -> None:
    codec, dest = load_codec(MULAW), f"{bucket}/music.solfa"
    encode(audio_folder, tmp_path / "local.solfa", codec=codec, segment_seconds=1.0)
    report = encode(audio_folder, dest, codec=codec, segment_seconds=1.0)
    assert str(report.dataset) == dest and report.new_clips == report.clips
    assert objects(dest) == digest(tmp_path / "local.solfa")
    assert encode(audio_folder, dest, codec=codec).new_clips == 0
    (audio_folder / "drums/hit0.wav").rename(audio_folder / "another.wav")
    for place in (tmp_path / "local.solfa", dest):
        assert encode(audio_folder, place, codec=codec).new_clips == 1
    assert objects(dest) == digest(tmp_path / "local.solfa")


def test_other_settings_are_refused_and_nothing_changes(bucket: str, audio_folder: Path) -> None:
    dest = f"{bucket}/music.solfa"
    encode(audio_folder / "voice", dest, codec=load_codec(MULAW))
    before = objects(dest)
    with pytest.raises(ValueError, match=r"segment_seconds.*nothing was changed"):
        encode(audio_folder, dest, codec=load_codec(MULAW), segment_seconds=3.0)
    assert objects(dest) == before


def test_a_damaged_object_is_encoded_again_byte_for_byte(bucket: str, audio_folder: Path) -> None:
    codec, dest = load_codec(MULAW), f"{bucket}/music.solfa"
    encode(audio_folder, dest, codec=codec)
    store, before = store_at(dest), objects(dest)
    data, commit = (next(entry.key for entry in store.list(folder)) for folder in ("data", "commit"))
    store.replace(data, b"damaged")
    store.delete([commit])
    report = repair_dataset(dest, source=audio_folder, codec=codec)
    assert report.verification.problems == [] and objects(dest) == before
    assert {repair.path for repair in report.repairs} == {data, commit}


def test_what_others_encoded_is_imported(bucket: str, audio_folder: Path, tmp_path: Path) -> None:
    encode(audio_folder, f"{bucket}/a.solfa", codec=load_codec(MULAW))
    export_dataset(open_dataset(f"{bucket}/a.solfa"), tmp_path / "arrays", ExportFormat.NPY)
    import_legacy(tmp_path / "arrays", f"{bucket}/b.solfa")
    one, other = open_dataset(f"{bucket}/a.solfa"), open_dataset(f"{bucket}/b.solfa")
    assert one.ids() == other.ids() and all((a.array == b.array).all() for a, b in zip(one, other, strict=True))
    assert verify(f"{bucket}/b.solfa").problems == []


@pytest.mark.slow
def test_a_killed_command_is_finished_by_the_next_one(
    bucket: str,
    audio_folder: Path,
    tmp_path: Path,
    digest: Callable[[Path], dict[str, str]],
    solfa_command: Callable[..., object],
) -> None:
    """At one point of the command; `tests/store/test_bucket_dataset.py` has all points of the writer."""
    arguments = ("--codec", MULAW, "--segment-seconds", "1", "--num-encoders", "1")
    dest = f"{bucket}/music.solfa"
    killed = solfa_command("encode", audio_folder, dest, *arguments, SOLFA_CRASH_AT="put:after#6")
    assert killed.returncode in (-signal.SIGKILL, 1), killed.stderr
    assert "solfa-tests-secret" not in killed.stderr + killed.stdout
    encode(audio_folder, dest, codec=load_codec(MULAW), segment_seconds=1.0)
    encode(audio_folder, tmp_path / "local.solfa", codec=load_codec(MULAW), segment_seconds=1.0)
    assert objects(dest) == digest(tmp_path / "local.solfa")


@pytest.mark.slow
def test_a_kill_while_one_shard_is_sent_and_the_next_is_encoded_changes_no_byte(
    bucket: str, tmp_path: Path, digest: Callable[[Path], dict[str, str]]
) -> None:
    for index in range(8):
        write_tone(tmp_path / f"audio/take{index}.wav", 120, 1000)
    dest, local = f"{bucket}/music.solfa", tmp_path / "local.solfa"
    codec = load_codec(put_in_the_air.CODEC)
    encode(tmp_path / "audio", local, codec=codec, segment_seconds=5.0)
    command = [sys.executable, "-m", "tests.encoding.put_in_the_air", tmp_path / "audio", dest]
    for _ in range(2):  # again and again: each finds what the one before left
        killed = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert not any(problem for problem in verify(dest).problems if "unfinished" not in problem.message)
        assert committed_shards(store_at(dest)) != committed_shards(local)
    encode(tmp_path / "audio", dest, codec=codec, segment_seconds=5.0)
    assert objects(dest) == digest(local) and verify(dest).problems == []


@pytest.mark.slow
def test_a_store_that_overwrites_is_refused_before_anything_is_written(
    overwriting_bucket: str, audio_folder: Path
) -> None:
    with pytest.raises(StoreError, match=r"overwrites.*conditional writes"):
        encode(audio_folder, f"{overwriting_bucket}/music.solfa", codec=load_codec(MULAW))
    assert list(store_at(f"{overwriting_bucket}/music.solfa").list()) == []
