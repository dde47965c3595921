"""The command in this process, as it is typed."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from solfa.cli.main import main
from tests.disks import no_waiting_for_disks  # noqa: F401

SolfaMain = Callable[..., tuple[int, str]]


@pytest.fixture
def solfa_main(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> SolfaMain:
    """Run the whole command in this process; return exit code and output."""

    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["solfa", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main()
        captured = capsys.readouterr()
        return int(leaving.value.code or 0), captured.out + re.sub(r"\s+", " ", captured.err)

    return run


@pytest.fixture(scope="module")
def quiet_process() -> Iterator[None]:
    """One thread, and nobody who launched us or says where experiments are."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("SOLFA_", "AUDIOCRAFT_", "SLURM_")) or name in ("RANK", "WORLD_SIZE"):
                patch.delenv(name)
        yield
    torch.set_num_threads(before)
