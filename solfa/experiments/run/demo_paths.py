"""`//demo` in a path: the recordings that `solfa demo` synthesises, made when an experiment needs them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PREFIX = "//demo"


def demo_folder(dora_dir: Path) -> Path:
    """Say where the recordings are kept."""
    return dora_dir / "demo" / "recordings"


def place_demo(values: Any, dora_dir: Path) -> Any:
    """Replace a leading `//demo` in every text of `values` with the folder's path; nothing is synthesised yet."""
    if isinstance(values, Mapping):
        return {key: place_demo(value, dora_dir) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [place_demo(value, dora_dir) for value in values]
    if isinstance(values, str) and (values == PREFIX or values.startswith(f"{PREFIX}/")):
        return str(demo_folder(dora_dir)) + values.removeprefix(PREFIX)
    return values
