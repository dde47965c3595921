"""Solfa writes sound down once, as codec tokens or latents, and trains audio models from what it wrote.

    report  = solfa.encode("audio/", "music.solfa")
    dataset = solfa.open_dataset("music.solfa")
    codec   = solfa.load_codec(dataset.info.codec)
    audio   = codec.decode(dataset[0])

The names are resolved on first use, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names
from solfa.version import __version__

if TYPE_CHECKING:
    from solfa.codecs.catalogue import load_codec
    from solfa.encoding.api import encode
    from solfa.store.dataset import open_dataset
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.codecs.catalogue": ["load_codec"],
            "solfa.encoding.api": ["encode"],
            "solfa.store.dataset": ["open_dataset"],
        },
    )

__all__ = ["__version__", "encode", "load_codec", "open_dataset"]
