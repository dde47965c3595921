"""What a person may write in dset/*.yaml, and what it opens."""

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from solfa.config import parse_config
from solfa.data.sources.dset import Dset, Source
from solfa.errors import ConfigError

VALID = {"valid": "v.solfa"}


@pytest.mark.parametrize(
    "train",
    [
        "a.solfa",
        ["a.solfa"],
        {"path": "a.solfa"},
        [{"path": "a.solfa"}],
        Source(path="a.solfa"),
    ],
)
def test_a_path_a_mapping_and_lists_of_them_are_sources(train: Any) -> None:
    assert parse_config(Dset, {"train": train, **VALID}, "dset").train == (Source(path="a.solfa"),)


def test_several_sources_keep_their_order_and_settings() -> None:
    values = [{"path": "a.solfa", "weight": 2, "where": {"genre": ["jazz"]}}, "b.solfa"]
    first, second = parse_config(Dset, {"train": values, **VALID}, "dset").train
    assert (first.path, first.weight, first.where) == ("a.solfa", 2.0, {"genre": ("jazz",)})
    assert second == Source(path="b.solfa")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"train": "a"}, "valid or hold_out.*found neither"),
        ({"train": "a", **VALID, "hold_out": {"clips": 3}}, r"valid or hold_out.*found both.*dset\.hold_out=null"),
        ({**VALID}, "train: missing"),
        ({"train": [], **VALID}, "train: .*at least 1"),
        ({"train": 7, **VALID}, "train: .*tuple"),
        ({"train": {"path": "a", "wher": {}}, **VALID}, r"train\.0\.wher: .*did you mean 'where'"),
        ({"train": {"path": "a", "weight": 0}, **VALID}, r"train\.0\.weight: .*greater than 0"),
        ({"trian": "a", **VALID}, "trian: .*did you mean 'train'"),
        ({"train": "a", "hold_out": {"fracton": 0.1}}, r"hold_out\.fracton: .*did you mean 'fraction'"),
    ],
)
def test_faults_are_answered_with_the_place_and_what_is_expected(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse_config(Dset, values, "dset")


def test_equal_sources_are_changed_once() -> None:
    calls = []

    def prepare(source: Source) -> Source:
        calls.append(source.path)
        return source.model_copy(update={"path": f"cache/{source.path}"})

    dset = parse_config(Dset, {"train": ["a", "b"], "valid": "a", "generate": "c"}, "dset").mapped(prepare)
    assert calls == ["a", "b", "c"]
    assert [source.path for source in dset.train] == ["cache/a", "cache/b"]
    assert dset.valid == (Source(path="cache/a"),) and dset.evaluate is None
    assert dset.generate == (Source(path="cache/c"),)


@pytest.mark.parametrize("name", ["debug.yaml", "bark.yaml", "audio/default.yaml", "mot/debug.yaml"])
def test_the_shipped_files_are_valid_once_what_is_missing_is_filled_in(name: str) -> None:
    path = Path(str(files("solfa") / "conf" / "dset" / name))
    values = yaml.safe_load(path.read_text())
    if values["train"] == "???":
        values["train"] = "music.solfa"
    assert parse_config(Dset, values, name).hold_out is not None
