"""Codecs: everything that maps a waveform to codes or latents and back, behind one protocol."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.codecs.catalogue import load_codec
    from solfa.codecs.default_name import DEFAULT_CODEC
    from solfa.codecs.families.trained import export_codec
    from solfa.codecs.protocol import Codec, Encoded, StoredClip, as_batch
    from solfa.codecs.spec import CodecSpec, parse_spec
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.codecs.catalogue": ["load_codec"],
            "solfa.codecs.default_name": ["DEFAULT_CODEC"],
            "solfa.codecs.families.trained": ["export_codec"],
            "solfa.codecs.protocol": ["Codec", "Encoded", "StoredClip", "as_batch"],
            "solfa.codecs.spec": ["CodecSpec", "parse_spec"],
        },
    )

__all__ = [
    "DEFAULT_CODEC",
    "Codec",
    "CodecSpec",
    "Encoded",
    "StoredClip",
    "as_batch",
    "export_codec",
    "load_codec",
    "parse_spec",
]
