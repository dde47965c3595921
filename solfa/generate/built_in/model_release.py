"""Models whose weights ship with Solfa as package data. A name never gets different weights.

    solfa_tiny_music/
      config.json         what `solfa export-model --half` wrote, and so are the weights
      model.safetensors
      listener/           what it chooses among candidates by
      release.json        {"name": "solfa_tiny_music", "version": 1, "fingerprint": ".."}
      README.md           what it was trained on, and how well it does

The fingerprint covers the files that make the model, so a damaged or replaced one is refused when it is loaded.
"""

from pathlib import Path

from solfa.codecs.built_in.release import RELEASE, read_release
from solfa.errors import ConfigError
from solfa.files.digest import file_sha256, value_sha256
from solfa.models.listener.listener_files import LISTENER_FILES, find_listener
from solfa.pretrained.directory import CONFIG

ROOT = Path(__file__).parent
TINY_MUSIC = "solfa_tiny_music"
"""Plays short pieces from a text; recipes/tiny_music of the repository makes it."""
BUILT_IN_MODELS = (TINY_MUSIC,)
FILES = (CONFIG, "model.safetensors")
"""What every model has; one with a listener has `LISTENER_FILES`, too."""


def is_released(name: str) -> bool:
    """Say whether a model is in this installation."""
    return (ROOT / name / RELEASE).is_file()


def released_folder(name: str) -> Path:
    """Return the folder of a model; refuse it if it is not there, or not what was released."""
    folder = ROOT / name
    if not is_released(name):
        raise ConfigError(
            f"model {name}: it is not in this installation, which has no {folder}; install a version of Solfa that "
            "comes with it, or train it with recipes/tiny_music of the repository"
        )
    expected, found = read_release(folder).fingerprint, files_fingerprint(folder)
    if found != expected:
        raise ConfigError(
            f"model {name}: {folder}: expected the fingerprint {expected[:16]} from {RELEASE}, found {found[:16]}; its "
            "files are damaged or were replaced: reinstall Solfa"
        )
    return folder


def files_fingerprint(folder: Path) -> str:
    """Hash the files that make a model."""
    return value_sha256({name: file_sha256(folder / name) for name in released_files(folder)})


def released_files(folder: Path) -> tuple[str, ...]:
    """List the files that make a model."""
    return FILES if find_listener(folder) is None else (*FILES, *LISTENER_FILES)
