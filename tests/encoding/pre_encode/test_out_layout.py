"""Ranks that start at once share a folder, and folders of others stay others'."""

from pathlib import Path

import numpy as np
import pytest

from solfa.encoding.pre_encode import out_layout
from solfa.encoding.pre_encode.items import Slot
from solfa.encoding.pre_encode.out_layout import DETAILS, RankFolder, at_work, claim_folder, read_details
from solfa.environment.ranks import Rank
from solfa.errors import ConfigError, StoreError
from solfa.store.export.stable_audio import FILE_LIST
from solfa.store.lease import Lease, is_leased, live_leases

DETAILS_OF_RUN = {"dataset_config": {"datasets": []}, "solfa": {"settings": {"batch_size": 4}}}


def begin_before_the_next_listing(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another rank write its first files after a look for details.json and before the folder is listed."""
    iterdir = Path.iterdir

    def listing(path):
        if path == out:
            monkeypatch.setattr(Path, "iterdir", iterdir)
            claim_folder(out, DETAILS_OF_RUN)
            (out / "items.parquet").write_text("")
            (out / "0").mkdir()
        return iterdir(path)

    monkeypatch.setattr(Path, "iterdir", listing)


def test_what_another_rank_writes_between_two_looks_is_ours(tmp_path, monkeypatch):
    begin_before_the_next_listing(tmp_path, monkeypatch)
    assert read_details(tmp_path) == DETAILS_OF_RUN


def test_both_ranks_claim_the_folder_whoever_is_first(tmp_path, monkeypatch):
    begin_before_the_next_listing(tmp_path, monkeypatch)
    claim_folder(tmp_path, DETAILS_OF_RUN)
    assert read_details(tmp_path) == DETAILS_OF_RUN


def test_another_rank_with_other_settings_is_refused(tmp_path, monkeypatch):
    begin_before_the_next_listing(tmp_path, monkeypatch)
    with pytest.raises(StoreError, match=r"batch_size: 4 .* 8 now"):
        claim_folder(tmp_path, DETAILS_OF_RUN | {"solfa": {"settings": {"batch_size": 8}}})


def test_files_of_others_are_foreign_as_before(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"thesis\.txt"):
        claim_folder(tmp_path, DETAILS_OF_RUN)
    assert not (tmp_path / DETAILS).exists()


def test_the_last_rank_to_finish_lists_the_arrays_of_all(tmp_path):
    ranks = [RankFolder(tmp_path, Rank(rank, 2, rank, 2)) for rank in range(2)]
    for folder in ranks:
        folder.clean()
    ranks[0].store(Slot(0, 0, 1), np.zeros((2, 3)), {})
    ranks[0].store(Slot(0, 0, 0), np.zeros((2, 3)), {})
    (tmp_path / "0/0000000010000.npy").write_bytes(b"torn: its JSON is not there")
    ranks[0].store_silence(np.zeros((1, 2, 3)))
    ranks[0].finish([])
    assert not (tmp_path / FILE_LIST).exists()
    ranks[1].store(Slot(1, 0, 0), np.zeros((2, 3)), {})
    ranks[1].finish([])
    assert (tmp_path / FILE_LIST).read_text().split() == [
        "0/0000000000000.npy",
        "0/0000000000001.npy",
        "1/0010000000000.npy",
    ]


def test_a_rank_neither_writes_nor_removes_through_a_link(tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/.bashrc").write_text("mine")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/0").symlink_to(tmp_path / "theirs")
    with pytest.raises(StoreError, match="is a link"):
        RankFolder(tmp_path / "out", Rank(0, 1, 0, 1)).clean()
    assert (tmp_path / "theirs/.bashrc").read_text() == "mine"


def test_only_what_a_killed_process_left_is_cleaned_up(tmp_path):
    folder = RankFolder(tmp_path, Rank(0, 1, 0, 1))
    folder.path.mkdir()
    (folder.path / ".notes").write_text("mine")
    (folder.path / ".0000000000001.json.12.0123abcd").write_text("{")
    folder.clean()
    assert [path.name for path in folder.path.iterdir()] == [".notes"]


def test_a_rank_that_starts_while_the_last_one_clears_up_keeps_what_it_makes(tmp_path, monkeypatch):
    started = []

    def start_after_the_look(out):
        found = live_leases(out)
        started.append(Lease.take(out, 1))
        (out / ".tmp/items.2.ab").write_text("being written")
        return found

    with at_work(tmp_path, Rank(0, 2, 0, 2)):
        (tmp_path / ".tmp/items.1.ab").write_text("left behind")
        monkeypatch.setattr(out_layout, "live_leases", start_after_the_look)
    with started[0]:
        assert is_leased(tmp_path, 1) and (tmp_path / ".tmp/items.2.ab").exists()
        assert not (tmp_path / ".tmp/items.1.ab").exists()
    monkeypatch.undo()
    with at_work(tmp_path, Rank(1, 2, 1, 2)):
        pass
    assert not (tmp_path / ".tmp").exists()
