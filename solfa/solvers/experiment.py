"""What a solver knows of the experiment it runs in: a folder, a name, and who watches."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from solfa.files.whole_files import replace_atomically
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.xp.record import HISTORY


class Experiment(NamedTuple):
    """An experiment is its folder; the signature is its name.

    A solver is built with one: `MySolver(cfg, Experiment(Path("runs/first"), "first"))`.
    """

    folder: Path
    signature: str
    watcher: Watcher = Watchers(())

    def write_history(self, history: Sequence[Mapping[str, Mapping[str, float]]]) -> None:
        """Write the metrics of all epochs, stage by stage, where Dora looks for them."""
        self.write_json(HISTORY, list(history))

    def write_json(self, name: str, value: Any) -> None:
        """Write a file of plain values into the folder."""
        replace_atomically(self.folder / name, json.dumps(value, indent=2).encode())
