"""Ranks that start at once share a folder, and folders of others stay others'."""

from pathlib import Path

import pytest

from solfa.encoding.pre_encode.out_layout import DETAILS, claim_folder, read_details
from solfa.errors import ConfigError, StoreError

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
