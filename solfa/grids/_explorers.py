"""What the table of a grid shows of each experiment."""

from typing import Any

import treetable  # type: ignore[import-untyped]
from dora.explore import Explorer


class LMExplorer(Explorer):
    """The epoch, and the losses of a language model."""

    def get_grid_metrics(self) -> list[Any]:
        stages = {"train": ("loss", "lr"), "valid": ("loss", "ppl")}
        formats = {"loss": ".3f", "ppl": ".1f", "lr": ".1e"}
        groups = [
            treetable.group(stage, [treetable.leaf(name, formats[name]) for name in names])
            for stage, names in stages.items()
        ]
        return [treetable.leaf("epoch"), *groups]
