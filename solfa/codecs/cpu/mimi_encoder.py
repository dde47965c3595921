"""Mimi's encoder (arXiv 2410.00037): a SEANet computed in pieces of time, then the library's transformer."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.codecs.cpu.encodec_encoder import fast_seanet_encoder
from solfa.codecs.cpu.exact_product import with_exact_products
from solfa.codecs.inference import clip_by_clip


def fast_mimi_encoder(encoder: Any) -> Callable[[Float[Tensor, "B C N"]], Float[Tensor, "B Z T"]]:
    """Build a faster equivalent of the encoder of a transformers `MimiModel`, from its current weights.

    It computes no gradients. Where the fast SEANet does not apply, it is the encoder itself, clip by clip on CPUs.
    """
    seanet = fast_seanet_encoder(encoder.encoder_seanet)
    if seanet is encoder.encoder_seanet:
        return clip_by_clip(lambda audio: encoder(audio, use_streaming=False).latents)

    transformer = with_exact_products(encoder.encoder_transformer)

    @torch.no_grad()
    def encode(audio: Float[Tensor, "1 C N"]) -> Float[Tensor, "1 Z T"]:
        hidden = transformer(seanet(audio).transpose(1, 2), use_cache=False).last_hidden_state
        latents: Tensor = encoder.downsample(hidden.transpose(1, 2))
        return latents

    return clip_by_clip(encode)
