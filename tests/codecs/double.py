"""Codecs that compute in float64, where no rounding decides between two codes that are equally near."""

from typing import Any

from solfa.codecs.cpu.dac_encoder import fast_dac_encoder, fast_vae_encoder
from solfa.codecs.cpu.encodec_encoder import fast_encodec_encoder
from solfa.codecs.cpu.exact_product import with_nearest_codewords
from solfa.codecs.cpu.mimi_encoder import fast_mimi_encoder
from solfa.codecs.families.dac import DacCodec
from solfa.codecs.families.encodec import EncodecCodec
from solfa.codecs.families.mimi import MimiCodec
from solfa.codecs.families.oobleck import OobleckCodec
from solfa.codecs.families.trained import OwnCodec
from solfa.codecs.protocol import Codec


def in_double(codec: Codec) -> Any:
    """Turn the weights of a codec, if it has any, to float64, and those of its faster parts, which are copies."""
    changed: Any = codec
    if hasattr(changed, "model"):
        changed.model.double()
    if isinstance(changed, OwnCodec):
        changed._read_weights()
    if isinstance(changed, EncodecCodec):
        changed._encoder = fast_encodec_encoder(changed.model)
        changed._quantizer = with_nearest_codewords(changed.model.quantizer)
    if isinstance(changed, DacCodec):
        changed._encoder = fast_dac_encoder(changed.model.encoder)
    if isinstance(changed, OobleckCodec):
        changed._encoder = fast_vae_encoder(changed.model.encoder)
    if isinstance(changed, MimiCodec):
        changed._encoder = fast_mimi_encoder(changed.model.encoder)
    return changed
