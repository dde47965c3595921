"""The clips that a run generated, epoch by epoch: a row for each clip, which has the same seed in every epoch."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from solfa.ui.html.samples_page import Sample, caption_of
from solfa.ui.sample_listing import sampled_epochs, samples_of_epoch
from solfa.xp.layout import SAMPLES

SHOWN_EPOCHS = 6
"""How many epochs are shown, the latest ones, unless all are asked for."""
SUFFIXES = {".wav": "audio/wav", ".png": "image/png"}


class SampleRow(NamedTuple):
    """One clip in the epochs that are shown, None where it is missing."""

    name: str
    caption: str
    cells: Sequence[Sample | None]


class SampleGrid(NamedTuple):
    """Clips by epoch, the earliest epoch first."""

    epochs: Sequence[int]
    rows: Sequence[SampleRow]
    num_hidden: int
    """Earlier epochs that are not shown."""


def sample_grid(folder: Path, *, is_whole: bool = False) -> SampleGrid:
    """Read the samples of a run; of one that has many epochs, only those that are shown."""
    samples = folder / SAMPLES
    every = sampled_epochs(samples)
    epochs = every if is_whole else every[-SHOWN_EPOCHS:]
    rows = sample_rows([samples_of_epoch(samples, epoch) for epoch in epochs])
    return SampleGrid(epochs, rows, len(every) - len(epochs))


def sample_rows(epochs: Sequence[Sequence[Sample]]) -> list[SampleRow]:
    """Arrange the samples of some epochs by clip."""
    by_name = [{sample.name: sample for sample in samples} for samples in epochs]
    rows = []
    for name in sorted({name for samples in by_name for name in samples}):
        cells = [samples.get(name) for samples in by_name]
        caption = next((caption_of(cell.metadata) for cell in reversed(cells) if cell is not None), "")
        rows.append(SampleRow(name, caption, cells))
    return rows


def sample_file(folder: Path, epoch: int, name: str) -> Path | None:
    """Find a sound or picture of an epoch; None for anything else, wherever it is."""
    path = folder / SAMPLES / str(epoch) / name
    is_plain = "/" not in name and "\\" not in name and not name.startswith(".") and path.suffix in SUFFIXES
    return path if is_plain and path.is_file() and not path.is_symlink() else None
