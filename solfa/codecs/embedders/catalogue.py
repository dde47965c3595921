"""`load_embedder`: from a name, a directory or a Hub id to an embedder."""

from collections.abc import Callable
from pathlib import Path

from solfa.codecs.embedders.mel_embedder import MelEmbedder
from solfa.codecs.embedders.musicnn import MusicnnEmbedder
from solfa.codecs.embedders.protocol import Embedder
from solfa.codecs.embedders.transformers_audio import TransformersEmbedder
from solfa.config import nearest
from solfa.errors import ConfigError
from solfa.pretrained.hub import is_hub_id

DEFAULT_EMBEDDER = "musicnn"

EMBEDDERS: dict[str, Callable[[str], Embedder]] = {
    "musicnn": MusicnnEmbedder.load,
    "mel": MelEmbedder,
    "clap": lambda device: TransformersEmbedder.load("laion/larger_clap_music", device),
    "mert": lambda device: TransformersEmbedder.load("m-a-p/MERT-v1-95M", device),
}
"""Embedders that have a name."""


def load_embedder(name: str | Path, *, device: str = "cpu") -> Embedder:
    """Load an embedder: `musicnn`, `mel`, `clap`, `mert`, or any audio model of transformers, by directory or Hub id.

    >>> from solfa.evaluate import load_embedder
    >>> embedder = load_embedder("mel")
    >>> embedder.width, len(embedder.fingerprint)
    (128, 64)
    """
    text = str(name)
    if text in EMBEDDERS:
        return EMBEDDERS[text](device)
    path = Path(text).expanduser()
    if path.is_dir():
        return TransformersEmbedder.load(path.absolute(), device)
    if "/" in text and is_hub_id(text):
        return TransformersEmbedder.load(text, device)
    raise ConfigError(
        f"`embedder`: expected {', '.join(EMBEDDERS)}, a directory written by save_pretrained or a Hub id, found "
        f"{text!r}{nearest(text, EMBEDDERS)}"
    )
