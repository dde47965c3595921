"""For conftest files: a fixture that keeps tests from waiting for disks.

from tests.disks import no_waiting_for_disks  # noqa: F401
"""

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here cuts the power, and fsync takes much of the time; tests/files proves that it is called."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
