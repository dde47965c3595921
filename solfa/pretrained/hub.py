"""Find a checkpoint: a local directory, or a Hub model, from the local cache or downloaded once."""

import posixpath
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from solfa.errors import ConfigError
from solfa.pretrained.directory import CONFIG, TEXT_FILES, TEXT_WEIGHTS

_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")


class HubFiles(NamedTuple):
    """Patterns for the files of a Hub model to download."""

    weights: tuple[str, ...]
    """Kinds of weights in order of preference; the first that exists is enough."""
    around: tuple[str, ...]
    """The small files next to them."""
    written_by: str = "save_pretrained"
    """What writes such a directory, for error messages."""
    instead: str = ""
    """What does without it, for error messages."""


CHECKPOINT = HubFiles(("model*.safetensors", "pytorch_model*.bin"), ("*.json", "*.model"))
PIPELINE = HubFiles(
    ("transformer/*.safetensors", "transformer/*.bin"),
    (
        "model_index.json",
        "transformer/*.json",
        "scheduler/*.json",
        "projection_model/*",
        "duration_embedder/*",
        "tokenizer/*config.json",
    ),
    "a pipeline of diffusers",
)
TEXT_MODEL = HubFiles(TEXT_WEIGHTS, TEXT_FILES, instead="; conditioner=text_small needs no download")
SOLFA_MODEL = HubFiles(
    ("model.safetensors",), ("config.json", "README.md", "curve.svg", "codec/*", "listener/*"), "export_model"
)


def is_hub_id(text: str) -> bool:
    """Say whether a text could be a Hub id: `owner/name`, or the bare `name` of an old model."""
    return _HUB_ID.fullmatch(text) is not None


def local_directory(
    location: str | Path, revision: str | None = None, *, what: str = "checkpoint", wanted: HubFiles = CHECKPOINT
) -> Path:
    """Return the directory of a checkpoint: a local one as it is, or a Hub model's snapshot, downloaded if needed.

    `what` is its name in error messages.
    """
    path = Path(location).expanduser()
    if path.is_dir():
        if revision is not None:
            raise ConfigError(
                f"{what} {location}: a local directory has no revisions, found {revision!r}; leave it out"
            )
        return path.resolve()
    if isinstance(location, Path) or not is_hub_id(location):
        raise ConfigError(
            f"{what} {location}: no such directory; expected one written by {wanted.written_by}, or a Hub id such as "
            "facebook/musicgen-small"
        )
    snapshot = path
    for weights in wanted.weights:
        try:
            snapshot = _snapshot(location, revision, (weights, *wanted.around))
        except (OSError, ValueError) as error:
            raise unreachable(location, what, wanted.written_by, wanted.instead) from error
        if any(snapshot.glob(weights)):
            break
    return snapshot


def _snapshot(hub_id: str, revision: str | None, patterns: tuple[str, ...]) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(hub_id, revision=revision, allow_patterns=list(patterns)))


def find_config(location: str | Path, subfolder: str, what: str) -> Path | None:
    """Find `config.json` in a local directory (Path) or a Hub model (str); None if there is none."""
    directory = location
    if not isinstance(directory, Path):
        try:
            # Not the libraries' search for one file: without a connection it asks six times, and says so each time.
            with quiet_loading():
                directory = _snapshot(directory, None, (posixpath.join(subfolder, CONFIG),))
        except (OSError, ValueError) as error:
            raise unreachable(str(location), what) from error
    path = directory / subfolder / CONFIG
    if path.is_file():
        return path
    if isinstance(location, Path) or not subfolder:
        return None
    # Offline, a file that does not exist and one that was never downloaded look the same. The root may have none (as
    # in a pipeline); the subfolder is the last place to look.
    raise unreachable(location, what)


def unreachable(hub_id: str, what: str, written_by: str = "save_pretrained", instead: str = "") -> ConfigError:
    """Make the error for a Hub model that cannot be downloaded."""
    return ConfigError(
        f"{what} {hub_id}: not a local directory, not in the Hub's local cache, and not reachable on the Hub; "
        f"connect to the network once, or pass a directory written by {written_by}{instead}"
    )


@contextmanager
def quiet_loading(library: str = "transformers") -> Iterator[None]:
    """Silence the library's loading report and its progress bars."""
    logging: Any = import_module(f"{library}.utils.logging")
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            # diffusers builds its layers with a weight norm that torch has deprecated.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()
