"""A collection large enough for several shards, yet quick to encode."""

from pathlib import Path

import pytest

from tests.conftest import write_tone


@pytest.fixture(scope="session")
def several_shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty recordings of about 15 s at 4 kHz: four shards of two minutes, and one broken file."""
    folder = tmp_path_factory.mktemp("several") / "audio"
    for index in range(30):
        write_tone(folder / f"take{index:02d}.wav", 14.0 + 0.5 * (index % 5), 4000)
    (folder / "take99.wav").write_bytes(b"not audio at all")
    return folder
