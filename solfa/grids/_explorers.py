"""The columns that a grid's table shows for each experiment."""

from typing import Any

import treetable  # type: ignore[import-untyped]
from dora.explore import Explorer


def metrics_table(stages: dict[str, tuple[str, ...]]) -> list[Any]:
    """Lay out the epoch and the metrics of each stage."""
    formats = {"ppl": ".1f", "lr": ".1e", "si_sdr": ".2f", "mel_distance": ".2f", "perplexity": ".1f"}
    groups = [
        treetable.group(stage, [treetable.leaf(name, formats.get(name, ".3f")) for name in names])
        for stage, names in stages.items()
    ]
    return [treetable.leaf("epoch"), *groups]


class LMExplorer(Explorer):
    """The epoch, and the losses of a language model."""

    def get_grid_metrics(self) -> list[Any]:
        return metrics_table({"train": ("loss", "lr"), "valid": ("loss", "ppl")})


class CodecExplorer(Explorer):
    """The epoch, and how well a codec reconstructs."""

    def get_grid_metrics(self) -> list[Any]:
        return metrics_table({"train": ("mel", "lr"), "valid": ("si_sdr", "mel_distance", "perplexity")})
