"""Where the files of a text encoder are, and which of them decide its embeddings."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from solfa.errors import ConfigError

_WEIGHTS = ("*.safetensors", "*.bin")
"""The first kind that exists is what transformers reads."""

_AROUND = (
    "config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab*",
    "merges.txt",
    "*.model",
    "*.index.json",
)


def local_directory(encoder: str) -> Path:
    """Find an encoder: a directory is itself, a Hub id is its snapshot, downloaded if it is not in the cache."""
    path = Path(encoder).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.is_absolute() or encoder.startswith((".", "~")) or encoder.count("/") > 1:
        raise ConfigError(f"text encoder {encoder}: no such directory")
    snapshot = _snapshot(encoder, _WEIGHTS[0])
    return snapshot if any(snapshot.glob(_WEIGHTS[0])) else _snapshot(encoder, _WEIGHTS[1])


def named_files(directory: Path) -> list[Path]:
    """List the files that decide the embeddings, in the order of their names."""
    weights = next((found for pattern in _WEIGHTS if (found := sorted(directory.glob(pattern)))), [])
    around = {path for pattern in _AROUND for path in directory.glob(pattern) if path.is_file()}
    return sorted({*weights, *around})


def _snapshot(encoder: str, weights: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(encoder, allow_patterns=[weights, *_AROUND]))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"text encoder {encoder}: neither a directory here, nor a Hub model in the local cache or reachable; "
            "connect to the network once, or pass a directory as save_pretrained writes it"
        ) from error


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Silence transformers' report and bars; what matters of them becomes one sentence."""
    logging: Any = import_module("transformers.utils.logging")
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()
