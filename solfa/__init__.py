"""Solfa writes sound down once, as codec tokens or latents, and trains audio models from what it wrote.

    report  = solfa.encode("audio/", "music.solfa")
    dataset = solfa.open_dataset("music.solfa")
    codec   = solfa.load_codec(dataset.info.codec)
    audio   = codec.decode(dataset[0])

The names are resolved on first use, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING, Any

from solfa.version import __version__

if TYPE_CHECKING:
    from solfa.codecs.catalogue import load_codec
    from solfa.encoding.api import encode
    from solfa.store.dataset import open_dataset

__all__ = ["__version__", "encode", "load_codec", "open_dataset"]

_HOMES = {
    "encode": "solfa.encoding.api",
    "load_codec": "solfa.codecs.catalogue",
    "open_dataset": "solfa.store.dataset",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'solfa' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
