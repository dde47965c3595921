"""Experiments as Dora and a solver leave them, for the tests of this folder."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def make_experiment(tmp_path: Path) -> Callable[..., Path]:
    """Make `dora/xps/SIG` with its overrides and whatever else is given."""

    def make(signature: str, *overrides: str, **files: object) -> Path:
        folder = tmp_path / "dora" / "xps" / signature
        folder.mkdir(parents=True)
        (folder / ".argv.json").write_text(json.dumps(overrides))
        for name, value in files.items():
            (folder / f"{name}.json").write_text(json.dumps(value))
        return folder

    return make
