"""Folders of one's own YAML files, laid out like `solfa/conf`, which SOLFA_SEARCH_PATH lists."""

import os
from collections.abc import Mapping
from pathlib import Path

from solfa.errors import ConfigError

SEARCH_PATH = "SOLFA_SEARCH_PATH"


def listed_folders(environ: Mapping[str, str]) -> list[Path]:
    """List the folders, whether they are there or not."""
    return [Path(text).absolute() for text in environ.get(SEARCH_PATH, "").split(os.pathsep) if text]


def own_folders(environ: Mapping[str, str]) -> list[Path]:
    """List the folders; it is an error if one is not there."""
    for folder in listed_folders(environ):
        if not folder.is_dir():
            raise ConfigError(f"{SEARCH_PATH}: expected folders of YAML files, but {folder} does not exist")
    return listed_folders(environ)


def hydra_search_path(folders: list[Path]) -> list[str]:
    """Write folders as Hydra's override that adds them, if there are any."""
    quoted = [str(folder).replace("\\", "\\\\").replace("'", "\\'") for folder in folders]
    places = ",".join(f"'file://{folder}'" for folder in quoted)
    return [f"hydra.searchpath=[{places}]"] if places else []
