"""A repaired dataset is what it was, byte for byte, whatever was damaged; what cannot be repaired is left as it is."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

import solfa
from solfa.encoding import clip_plan
from solfa.encoding.repair import repair_dataset
from solfa.errors import StoreError
from solfa.store.lease import Lease
from solfa.store.verification import verify
from tests.conftest import write_tone
from tests.trees import tree_digest

pytestmark = pytest.mark.slow

CODEC = "mulaw:bits=8,sample_rate=4000"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with audio/ and a dataset of three shards in two parts, with a broken recording; not to be changed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clip_plan, "FEW_SHARDS", 2)
        return _finished(tmp_path_factory)


def _finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    for index in range(5):
        write_tone(folder / f"audio/take{index}.wav", 40.0, 4000)
    (folder / "audio/broken.wav").write_bytes(b"not audio at all")
    codec = solfa.load_codec(CODEC)
    solfa.encode(folder / "audio", folder / "x.solfa", codec=codec, segment_seconds=10)
    write_tone(folder / "audio/later.wav", 3.0, 4000)
    solfa.encode(folder / "audio", folder / "x.solfa", codec=codec)
    return folder


@pytest.fixture
def work(finished: Path, tmp_path: Path) -> Path:
    """A copy of it to do anything with; the recordings keep their times."""
    return Path(shutil.copytree(finished, tmp_path / "work"))


def repaired(work: Path, **options):
    return repair_dataset(work / "x.solfa", source=work / "audio", codec=solfa.load_codec(CODEC), **options)


def flip(path: Path, place: float, bit: int = 2) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 1 << bit
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


DAMAGES = {"flipped": lambda path: flip(path, 0.5), "truncated": truncate, "lost": Path.unlink}
FILES = ["data/00001-*", "meta/00001-*", "commit/00001.json", "manifest/000001.json", "manifest/000002.json"]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("pattern", FILES)
def test_any_damaged_file_becomes_what_it_was(work: Path, pattern: str, damage: str) -> None:
    dataset, clean = work / "x.solfa", tree_digest(work / "x.solfa")
    (path,) = dataset.glob(pattern)
    DAMAGES[damage](path)
    assert verify(dataset).problems
    report = repaired(work)
    assert report.verification.problems == []
    assert [repair.path for repair in report.repairs] == [str(path.relative_to(dataset))]
    assert tree_digest(dataset) == clean
    assert not list((dataset / ".tmp").rglob("*"))


@pytest.mark.parametrize("name", ["commit/00001.json", "manifest/000001.json", "manifest/000002.json"])
def test_a_bit_flipped_anywhere_in_a_record_is_flipped_back(work: Path, name: str) -> None:
    path = work / "x.solfa" / name
    clean = path.read_bytes()
    for position in range(0, len(clean), 149):
        flip(path, position / len(clean), bit=position % 7)
        assert repair_dataset(work / "x.solfa").verification.problems == [], (position, clean[position - 9 : position])
        assert path.read_bytes() == clean


def test_everything_but_the_plan_and_the_settings_can_be_lost(work: Path) -> None:
    dataset, clean = work / "x.solfa", tree_digest(work / "x.solfa")
    for folder in ("data", "meta", "commit", "manifest"):
        shutil.rmtree(dataset / folder)
    report = repaired(work)
    assert report.verification.problems == []
    # Which manifest pinned the first part alone is not written down anywhere else: one pins everything.
    found = tree_digest(dataset)
    expected = {name: sha256 for name, sha256 in clean.items() if not name.startswith("manifest")}
    assert {name: sha256 for name, sha256 in found.items() if not name.startswith("manifest")} == expected
    assert [name for name in found if name.startswith("manifest")] == ["manifest/000001.json"]


def test_a_sound_dataset_is_not_touched(work: Path) -> None:
    times = {path: path.stat().st_mtime_ns for path in (work / "x.solfa").rglob("*")}
    assert repaired(work).repairs == []
    assert {path: path.stat().st_mtime_ns for path in (work / "x.solfa").rglob("*")} == times


def test_without_the_audio_records_are_restored_and_the_shard_says_what_it_needs(work: Path) -> None:
    dataset, clean = work / "x.solfa", tree_digest(work / "x.solfa")
    (data,) = dataset.glob("data/00001-*")
    truncate(data)
    (dataset / "manifest/000002.json").unlink()
    report = repair_dataset(dataset)
    (problem,) = report.verification.problems
    assert problem.path == f"data/{data.name}" and "`source`" in problem.message
    assert [repair.path for repair in report.repairs] == ["manifest/000002.json"]
    assert {name for name, sha256 in tree_digest(dataset).items() if clean[name] != sha256} == {f"data/{data.name}"}


def test_a_shard_whose_recording_changed_or_is_gone_is_left_and_the_others_are_repaired(work: Path) -> None:
    dataset, clean = work / "x.solfa", tree_digest(work / "x.solfa")
    for path in [*dataset.glob("data/*"), *dataset.glob("meta/00000*")]:
        truncate(path)
    damaged = tree_digest(dataset)
    soundfile.write(work / "audio/later.wav", np.zeros(8000), 4000)
    (work / "audio/take0.wav").unlink()
    report = repaired(work)
    first, second = report.verification.problems
    assert first.shard == 0 and "'take0.wav@" in first.message and "disappeared" in first.message
    assert second.shard == 2 and "'later.wav'" in second.message and "changed" in second.message
    found = tree_digest(dataset)
    assert {name for name in found if found[name] != clean[name]} == {
        name for name in damaged if damaged[name] != clean[name] and "/00001-" not in name
    }
    assert {name: found[name] for name in found if found[name] != clean[name]}.items() <= damaged.items()


def test_a_lost_commit_is_not_replaced_by_one_without_the_clips(work: Path) -> None:
    dataset = work / "x.solfa"
    for path in (dataset / "commit/00002.json", dataset / "manifest/000002.json"):
        path.unlink()
    (work / "audio/later.wav").unlink()
    before = tree_digest(dataset)
    report = repaired(work)
    assert any(
        "commit/00002.json" in problem.path and "'later.wav'" in problem.message
        for problem in report.verification.problems
    )
    assert tree_digest(dataset) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [({"codec": "nobody_has_this"}, "nobody_has_this"), ({"codec": "mulaw:bits=9,sample_rate=4000"}, "bits")],
)
def test_with_another_codec_nothing_is_encoded(work: Path, options: dict[str, str], words: str) -> None:
    dataset = work / "x.solfa"
    (data,) = dataset.glob("data/00001-*")
    truncate(data)
    damaged = tree_digest(dataset)
    (problem,) = repair_dataset(dataset, source=work / "audio", **options).verification.problems
    assert problem.path == f"data/{data.name}" and words in problem.message
    assert tree_digest(dataset) == damaged


def test_numbers_that_differ_from_those_committed_are_not_put_in_place(work: Path) -> None:
    dataset = work / "x.solfa"
    for path in [*dataset.glob("commit/*"), *dataset.glob("manifest/*")]:
        path.write_text(path.read_text().replace('"soxr":"', '"soxr":"0.'))
    codec = solfa.load_codec(CODEC)
    for path in dataset.glob("data/00001-*"):
        truncate(path)
    damaged = tree_digest(dataset)

    class Louder:
        """The codec with the right description and other numbers, as a new version of a library may give."""

        def __getattr__(self, name):
            return getattr(codec, name)

        def encode(self, audio):
            return codec.encode(audio * 0.5)

    (problem,) = repair_dataset(dataset, source=work / "audio", codec=Louder()).verification.problems
    assert "other numbers" in problem.message and "soxr 0." in problem.message
    assert tree_digest(dataset) == damaged


def test_a_damaged_plan_is_neither_encoded_from_nor_pinned(work: Path) -> None:
    dataset = work / "x.solfa"
    for path in (dataset / "commit/00001.json", dataset / "manifest/000002.json"):
        path.unlink()
    flip(dataset / "plan/00000.parquet", 0.3)
    report = repaired(work)
    assert [repair.path for repair in report.repairs] == ["commit/00001.json"]
    assert any(problem.path == "plan/00000.parquet" for problem in report.verification.problems)
    assert not (dataset / "manifest/000002.json").exists()


def test_damaged_settings_are_one_sentence(work: Path) -> None:
    truncate(work / "x.solfa/dataset.json")
    with pytest.raises(StoreError, match=r"dataset\.json"):
        repaired(work)


def test_a_dataset_at_work_is_left_alone(work: Path) -> None:
    (work / "x.solfa/manifest/000002.json").unlink()
    with Lease.take(work / "x.solfa", 1), pytest.raises(StoreError, match="working on shard 1"):
        repaired(work)
    assert not (work / "x.solfa/manifest/000002.json").exists()


@pytest.mark.parametrize("name", [".tmp", "data", "meta", "commit", "plan", "manifest"])
def test_nothing_is_repaired_through_a_link(work: Path, name: str) -> None:
    folder, theirs = work / "x.solfa" / name, work / "theirs"
    for path in (work / "x.solfa").glob("data/*"):
        truncate(path)
    folder.mkdir(exist_ok=True)
    folder.rename(theirs)
    folder.symlink_to(theirs)
    before = tree_digest(theirs)
    with pytest.raises(StoreError, match="is a link"):
        repaired(work)
    assert tree_digest(theirs) == before


def test_a_file_that_is_a_link_is_replaced_and_its_target_is_not(work: Path) -> None:
    (data,) = (work / "x.solfa").glob("data/00001-*")
    theirs = work / "theirs.txt"
    theirs.write_text("mine")
    data.unlink()
    data.symlink_to(theirs)
    assert repaired(work).verification.problems == []
    assert theirs.read_text() == "mine" and not data.is_symlink()


def test_a_plan_that_reads_other_files_is_refused(work: Path) -> None:
    listed = work / "lists/data.json"
    listed.parent.mkdir()
    entry = {"id": "a", "path": str(work / "audio")}
    listed.write_text(json.dumps({"dataset_type": "audio_dir", "datasets": [entry]}))
    codec = solfa.load_codec(CODEC)
    solfa.encode(listed, work / "y.solfa", codec=codec)
    clean = tree_digest(work / "y.solfa")
    for path in (work / "y.solfa").glob("data/*"):
        path.unlink()
    (work / "other").mkdir()
    report = repair_dataset(work / "y.solfa", source=work / "other", codec=codec)
    assert report.verification.problems
    assert all("outside" in problem.message for problem in report.verification.problems)
    assert repair_dataset(work / "y.solfa", source=listed, codec=codec).verification.problems == []
    assert tree_digest(work / "y.solfa") == clean
