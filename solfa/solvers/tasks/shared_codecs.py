"""Whether a task can learn from what a codec gives, asked before hours of audio are encoded with it."""

from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec, Kind
from solfa.data.sources.dset import Dset, Source
from solfa.errors import ConfigError
from solfa.files.stores.place import expand_place
from solfa.store.layout import is_dataset

_INSTEAD = {"codes": "encodec_32khz", "latents": "stable_audio_open"}


def expect_codecs(dset: Dset | None, kind: Kind, what: str) -> None:
    """Refuse audio that would be encoded with a codec from which nothing can be learnt; `what` learns from `kind`."""
    specs: list[str] = []

    def look(source: Source) -> Source:
        if source.codec is not None and source.codec not in specs and not is_dataset(expand_place(source.path)):
            specs.append(source.codec)
        return source

    if dset is not None:
        dset.mapped(look)
    for spec in specs:
        _expect_codec(load_codec(spec), kind, what)


def _expect_codec(codec: Codec, kind: Kind, what: str) -> None:
    advice = f"choose another codec, such as {_INSTEAD[kind]}"
    if codec.kind != kind:
        raise ConfigError(f"dset: {what} needs {kind}, and {codec.spec} gives {codec.kind}; {advice}")
    refuse_scales(codec, what, advice)


def refuse_scales(codec: Codec, what: str, advice: str) -> None:
    """Refuse a codec that stores the loudness of every chunk beside its codes."""
    if getattr(codec, "has_scales", False):
        raise ConfigError(
            f"codec {codec.spec}: it stores a loudness for every second beside the codes, which {what} does not "
            f"predict, so that nothing it draws could be decoded; {advice}"
        )
