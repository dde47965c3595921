"""Experiments of a user's own under a temporary folder."""

from pathlib import Path
from typing import Any

import pytest

from tests.disks import no_waiting_for_disks  # noqa: F401
from tests.experiments.own_folder import OWN, make_main, own_variables


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Variables for a process that runs experiments under a temporary folder."""
    return own_variables(tmp_path / "dora")


@pytest.fixture
def main(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Dora's entry point, looking at the user's own folder."""
    for name in ("SOLFA_SEARCH_PATH", "SOLFA_DORA_DIR"):
        monkeypatch.setenv(name, variables[name])
    monkeypatch.syspath_prepend(str(OWN))
    return make_main()
