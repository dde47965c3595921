"""The clips that a run generated, as their files say it, read without what wrote them (`solfa.ui.clip_files`)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solfa.ui.html.samples_page import Sample


def read_samples(folder: Path) -> dict[int, list[Sample]]:
    """List the complete samples of every epoch, the latest first, by name."""
    return {epoch: samples_of_epoch(folder, epoch) for epoch in reversed(sampled_epochs(folder))}


def sampled_epochs(folder: Path) -> list[int]:
    """List the epochs after which clips were generated, the earliest first; none if there is no folder."""
    return sorted(int(child.name) for child in folder.iterdir() if child.name.isdecimal()) if folder.is_dir() else []


def samples_of_epoch(folder: Path, epoch: int) -> list[Sample]:
    """List the complete samples of one epoch, by name."""
    return [_read(path) for path in sorted((folder / str(epoch)).glob("[!.]*.json"))]


def _read(path: Path) -> Sample:
    about: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
    return Sample(
        name=about["name"],
        file=f"{path.parent.name}/{path.stem}",
        seconds=about["seconds"],
        sample_rate=about["sample_rate"],
        levels=about["levels"],
        metadata=about["metadata"],
    )
