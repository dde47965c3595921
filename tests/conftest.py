"""Fixtures that several test folders share: small real audio, and ways to compare trees and run the command."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import HealthCheck, settings

# No test asserts a time: on a busy machine any example may take longer than any deadline.
settings.register_profile("solfa", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("solfa")

# One thread each, here and in what tests start: tiny operations gain nothing from a second one, and two processes of
# two threads on two cores spend most of their time waiting for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def write_tone(path: Path, seconds: float, sample_rate: int = 16000, channels: int = 1, hz: float = 330.0) -> Path:
    """Write a decaying tone with some noise, different for every name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = int.from_bytes(hashlib.sha256(path.name.encode()).digest()[:4], "little")
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * sample_rate)) / sample_rate
    tone = 0.4 * np.sin(2 * np.pi * hz * time) * np.exp(-time / 3) + 0.02 * rng.standard_normal(len(time))
    soundfile.write(path, np.repeat(tone[:, None], channels, axis=1), sample_rate)
    return path


@pytest.fixture
def audio_folder(tmp_path: Path) -> Path:
    """A folder of nine recordings of different lengths, rates and channels, some with captions."""
    folder = tmp_path / "audio"
    for index in range(6):
        write_tone(folder / f"drums/hit{index}.wav", 0.4 + 0.3 * (index % 3), 16000)
    write_tone(folder / "long.flac", 7.3, 22050, 2)
    write_tone(folder / "voice/a.wav", 2.0, 8000)
    write_tone(folder / "voice/b.ogg", 2.0, 44100)
    (folder / "voice/a.txt").write_text("somebody says a")
    (folder / "voice/b.json").write_text('{"caption": "somebody says b", "speaker": 7}')
    return folder


def tree_digest(root: Path) -> dict[str, str]:
    """Hash every file of a tree, except what is temporary."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".tmp" not in path.relative_to(root).parts
    }


@pytest.fixture
def digest() -> Callable[[Path], dict[str, str]]:
    """Hash a tree: name to digest."""
    return tree_digest


@pytest.fixture
def solfa_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run `solfa ARGUMENTS` in a process of its own, as a user does."""

    def run(
        *arguments: str | Path, cwd: Path | None = None, timeout: float = 120, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from solfa.cli.main import main; main()", *map(str, arguments)],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run
