"""Folders with YAML files of your own, laid out like `solfa/conf`."""

import os
from pathlib import Path

from solfa.errors import ConfigError

SEARCH_PATH = "SOLFA_SEARCH_PATH"
"""The environment variable that lists them."""


def own_folders() -> list[Path]:
    """List the folders; one that does not exist is refused."""
    named = [Path(text).absolute() for text in os.environ.get(SEARCH_PATH, "").split(os.pathsep) if text]
    for folder in named:
        if not folder.is_dir():
            raise ConfigError(f"{SEARCH_PATH}: expected folders of YAML files, but {folder} does not exist")
    return named


def hydra_search_path(folders: list[Path]) -> list[str]:
    """Write folders as Hydra's override that adds them, if there are any."""
    quoted = [str(folder).replace("\\", "\\\\").replace("'", "\\'") for folder in folders]
    places = ",".join(f"'file://{folder}'" for folder in quoted)
    return [f"hydra.searchpath=[{places}]"] if places else []
