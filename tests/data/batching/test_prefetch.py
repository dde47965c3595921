"""Training data in a real object store: the batches of local data for every size of cache and number of workers."""

import logging
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from solfa.data import Batch, ClipTable, Crop, Pad, Source, make_loader, open_sources
from solfa.data.batching.modes import plan_epoch
from solfa.data.batching.prefetch import Timetable
from solfa.files import LocalStore, store_at
from solfa.store.dataset import open_dataset
from solfa.store.remote_files import RemoteFiles
from tests.data.stored import numbered, store


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("local") / "d.solfa"
    for part in range(4):  # each becomes two shards of three clips
        store(root, numbered(6, prefix=f"part{part}", num_frames=500))
    return root


@pytest.fixture
def remote(bucket: str, local: Path) -> str:
    for entry in LocalStore(local).list():
        if not entry.key.startswith(".tmp"):
            store_at(f"{bucket}/d.solfa").replace(entry.key, (local / entry.key).read_bytes())
    return f"{bucket}/d.solfa"


def same(one: Batch, other: Batch) -> bool:
    return torch.equal(one.arrays, other.arrays) and (one.ids, one.captions) == (other.ids, other.captions)


MODE = Crop(num_frames=100, batch_size=5)


@pytest.mark.parametrize("cache_bytes", [0, 6_000, 1 << 20])
def test_batches_do_not_depend_on_the_size_of_the_cache(remote: str, local: Path, cache_bytes: int) -> None:
    here = make_loader(open_dataset(local), MODE, seed=3)
    there = make_loader(open_dataset(remote, cache_bytes=cache_bytes), MODE, seed=3)
    for _ in range(2):
        assert all(same(*pair) for pair in zip(here, there, strict=True))


@pytest.mark.slow
def test_workers_do_not_hang_and_read_the_same(remote: str, local: Path, tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_text("file,caption\n" + "".join(f"part0{n:03d},words {n}\n" for n in range(6)))
    table = ClipTable(path=str(tmp_path / "captions.csv"), key="file")
    sources = [[Source(path=str(place)), Source(path=str(place), table=table)] for place in (local, remote)]
    here, there = (open_sources(pair) for pair in sources)
    there[0].array.sum()  # this process has used the store
    loaders = [make_loader(source, MODE, seed=1, num_workers=workers) for source, workers in ((here, 0), (there, 2))]
    assert all(same(*pair) for pair in zip(*loaders, strict=True))


def wait_until(happens: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.02)
    return happens()


def test_files_are_fetched_ahead_of_the_batches(remote: str) -> None:
    dataset = open_dataset(remote)
    files = dataset.remote_files()
    assert files is not None and len(files.files) == 8
    batches = iter(make_loader(dataset, MODE, seed=3))
    next(batches)
    assert wait_until(lambda: all(files.cache.has(file) for file in files.files))
    batches.close()


def test_a_cache_that_is_too_small_says_which_size_would_do(remote: str, caplog: pytest.LogCaptureFixture) -> None:
    dataset = open_dataset(remote, cache_bytes=40_000)
    total = sum(file.size_bytes for file in dataset.remote_files().files)
    batches = iter(make_loader(dataset, MODE, seed=3))
    with caplog.at_level(logging.WARNING):
        next(batches)
        assert wait_until(lambda: "SOLFA_CACHE_BYTES" in caplog.text)
        batches.close()
        list(make_loader(dataset, MODE, seed=3))
    assert caplog.text.count(f"SOLFA_CACHE_BYTES={round(total * 1.05)}") == 1, "said once, not in every epoch"
    assert sum(kept.size_bytes for kept in dataset.cache.kept()) <= 40_000


def test_read_in_order_each_file_makes_room_for_the_next(remote: str) -> None:
    files = open_dataset(remote).remote_files()
    largest = max(file.size_bytes for file in files.files)
    dataset = open_dataset(remote, cache_bytes=0)
    lengths = dataset.num_frames
    room = files.cache.__class__(files.cache.folder.parent / "one", round(largest * 1.5))
    plan = plan_epoch(Pad(batch_size=3, shuffle=False), lengths, dataset.digest, 0, 0)
    table = Timetable(plan, files, 0)
    assert table.order() == [*range(8)] and table.last_use(0) == 0 and table.next_use(0, 1) == np.inf
    for step, file in enumerate(table.order()):
        uses = {other.name: table.next_use(number, step) for number, other in enumerate(files.files)}
        assert room.fetch(files.files[file], table.last_use(file), uses) is not None
        assert len(room.kept()) == 1


def test_clips_of_this_machine_belong_to_no_file(remote: str, local: Path) -> None:
    mixed = open_sources([Source(path=str(local)), Source(path=remote)])
    files = mixed.remote_files()
    assert isinstance(files, RemoteFiles)
    assert files.of_clips.tolist() == [-1] * 24 + [number for number in range(8) for _ in range(3)]
    assert open_sources([Source(path=str(local))]).remote_files() is None
