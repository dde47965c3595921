"""Metrics of a run: which stands for it, what was best, and how they are laid out."""

import math

import pytest
from rich.console import Console

from solfa.ui.terminal.history_table import all_series, better, history_table, main_series, summary_table

HISTORY = [
    {"valid": {"loss": 3.0}, "train": {"loss": 4.0, "lr": 0.1}},
    {"train": {"loss": math.nan, "lr": 0.2}, "valid": {"loss": 1.0}},
    {"train": {"loss": 2.0, "lr": 0.3}, "valid": {"loss": 1.5}, "evaluate": {"acc": 0.5}},
]


def drawn(table) -> list[list[str]]:
    console = Console(width=200, force_terminal=False)
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines()]


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        *((name, "lower") for name in ("loss", "ce_q1", "ce.3", "bits_per_frame", "l1", "mel_l2", "valid_loss")),
        *((name, "higher") for name in ("clap_score", "sisnr", "accuracy")),
        *((name, None) for name in ("lr", "grad_norm", "seconds", "place", "scale")),
    ],
)
def test_names_say_which_way_is_better(metric, direction):
    assert better(metric) == direction


def test_series_follow_the_stages_and_mark_what_was_not_measured():
    series = all_series(HISTORY)
    assert [found.name for found in series] == ["train.loss", "train.lr", "valid.loss", "evaluate.acc"]
    assert series[3].values == (None, None, 0.5)
    assert [found.best for found in series] == [(2.0, 3), None, (1.0, 2), (0.5, 3)]
    assert [found.last for found in series] == [2.0, 0.3, 1.5, 0.5]


def test_the_validation_loss_stands_for_a_run():
    assert main_series(all_series(HISTORY)).name == "valid.loss"
    assert main_series(all_series([{"train": {"ce": 1.0, "loss": 2.0}}])).name == "train.loss"
    assert main_series(all_series([{"": {"nll": 1.0}}])).name == "nll"
    assert main_series(all_series([{"train": {"lr": 1.0}}])) is None and main_series([]) is None


def test_the_summary_has_a_line_per_metric():
    assert drawn(summary_table(all_series(HISTORY))) == [
        ["stage", "metric", "last", "best", "at", "curve"],
        ["train", "loss", "2", "2", "3", "█×▁"],
        ["lr", "0.3", "▁▅█"],
        ["valid", "loss", "1.5", "1", "2", "█▁▃"],
        ["evaluate", "acc", "0.5", "0.5", "3", "▄"],
    ]


def test_the_history_has_a_line_per_epoch_in_which_the_stage_ran():
    series = all_series(HISTORY)
    assert drawn(history_table(series, "train"))[2:] == [["1", "4", "0.1"], ["2", "nan", "0.2"], ["3", "2", "0.3"]]
    assert drawn(history_table(series, "evaluate")) == [["evaluate"], ["epoch", "acc"], ["3", "0.5"]]


def test_markup_and_control_characters_in_names_do_nothing():
    lines = drawn(summary_table(all_series([{"[red]x": {"a\x1b[31m[/]": 1.0}}])))
    assert lines[1][:2] == ["[red]x", "a\\x1b[31m[/]"]
