"""Hostile audio, full disks, foreign paths: each costs the clip or stops with a sentence, never the dataset."""

import errno
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

import solfa
from solfa.store.verification import verify
from tests.audio.hostile import make_hostile_corpus
from tests.conftest import write_tone
from tests.trees import tree_digest

CODEC = "mulaw:sample_rate=4000"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "corpus"
    return folder, make_hostile_corpus(folder)


def test_every_hostile_file_is_a_row_with_the_right_status(corpus, tmp_path):
    folder, expected = corpus
    dest = tmp_path / "d.solfa"
    report = solfa.encode(folder, dest, codec=solfa.load_codec(CODEC))
    dataset = solfa.open_dataset(dest)
    found = dict.fromkeys(dataset.ids(), "ok") | {failed.id: "failed" for failed in dataset.failures()}
    # A recording is ok if all its segments are; one that is longer than a segment has several.
    by_recording: dict[str, str] = {}
    for clip_id, status in found.items():
        key = clip_id.partition("@")[0] if clip_id.partition("@")[0] in expected else clip_id
        by_recording[key] = "failed" if "failed" in (status, by_recording.get(key)) else "ok"
    assert by_recording == expected
    assert all(failed.error and failed.error.isprintable() for failed in dataset.failures())
    assert report.failed >= 15
    assert not verify(dest).problems


def test_encoding_the_hostile_corpus_again_gives_the_same_bytes(corpus, tmp_path):
    folder, _ = corpus
    for name in ("a.solfa", "b.solfa"):
        solfa.encode(folder, tmp_path / name, codec=solfa.load_codec(CODEC))
    assert tree_digest(tmp_path / "a.solfa") == tree_digest(tmp_path / "b.solfa")


@pytest.fixture
def small_disk(tmp_path):
    """A file system that can be filled, and enlarged while it is in use."""
    mount = tmp_path / "disk"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.strip()}")

    def resize(kilobytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(mount)], check=True)

    yield mount, resize
    subprocess.run(["umount", "-l", str(mount)], check=True)


def test_a_full_disk_stops_the_run_and_the_same_call_finishes_once_there_is_room(several_shards, tmp_path, small_disk):
    mount, resize = small_disk
    codec = solfa.load_codec(CODEC)
    clean = tmp_path / "clean.solfa"
    solfa.encode(several_shards, clean, codec=codec, segment_seconds=10)
    dest, failures, committed = mount / "d.solfa", 0, []
    for kilobytes in (64, 128, 300, 700, 1_200, 1_800, 2_600, 3_200, 16_000):
        resize(kilobytes)
        try:
            solfa.encode(several_shards, dest, codec=codec, segment_seconds=10)
            break
        except OSError as error:
            assert error.errno == errno.ENOSPC or "No space left" in str(error)
            failures += 1
            committed.append(len(list((dest / "commit").glob("*.json"))))
    assert failures >= 4
    num_shards = len(list((clean / "commit").iterdir()))
    assert committed == sorted(committed) and 0 < max(committed) < num_shards  # some were committed, none was lost
    assert tree_digest(dest) == tree_digest(clean)
    assert not verify(dest).problems


def test_a_table_cannot_reach_outside_its_folder(tmp_path):
    write_tone(tmp_path / "secret.wav", 0.5)
    folder = tmp_path / "collection"
    write_tone(folder / "fine.wav", 0.5)
    (folder / "link.wav").symlink_to(tmp_path / "secret.wav")
    rows = ["path", "fine.wav", "../secret.wav", str(tmp_path / "secret.wav"), "link.wav"]
    (folder / "clips.csv").write_text("\n".join(rows))
    report = solfa.encode(folder / "clips.csv", tmp_path / "d.solfa", codec=solfa.load_codec(CODEC))
    assert (report.clips, report.failed) == (1, 3)
    assert all("`audio_root`" in failed.error for failed in report.failures)


def test_a_tar_is_read_in_place_and_its_evil_members_are_failed_rows(tmp_path):
    tone = write_tone(tmp_path / "tone.wav", 0.5)
    with tarfile.open(tmp_path / "shard.tar", "w") as tar:
        for name in ("good/a.wav", "../../evil.wav", "/etc/evil.wav"):
            member = tarfile.TarInfo(name)
            member.size = tone.stat().st_size
            with tone.open("rb") as file:
                tar.addfile(member, file)
        link = tarfile.TarInfo("link.wav")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    codec = solfa.load_codec(CODEC)
    report = solfa.encode(tmp_path / "shard.tar", tmp_path / "d.solfa", codec=codec)
    assert (report.clips, report.failed) == (1, 3)
    solfa.encode(tone, tmp_path / "tone.solfa", codec=codec)
    (inside,), (outside,) = (solfa.open_dataset(tmp_path / name) for name in ("d.solfa", "tone.solfa"))
    assert np.array_equal(inside.array, outside.array)
    assert not Path("/etc/evil.wav").exists()
