"""Lay out the weights of a language model for generation on a CPU: in fewer bits, and for one kernel.

There are two ways to compute with a layout. The C kernels of `solfa.nn.kernels` read weights at the speed of memory,
run a whole step in one call and keep keys and values in 16 bits, or in 8; the layers of torch need no compiler. Both
round the weights the same, so that their results differ far less from each other than by a change of the layout.
`solfa.models.lm.fastest_way` chooses between them.
"""

import logging
from collections.abc import Callable
from typing import Literal, get_args

import torch
from torch import nn

from solfa.errors import ConfigError
from solfa.models.lm.network import CodecLM
from solfa.nn.kernels.formats import Float16Format, Float32Format, Int4Format, Int8Format, WeightFormat
from solfa.nn.kernels.library import NoKernelError
from solfa.nn.kernels.stepper import BYTE_HEAD, attach_stepper, expect_heads
from solfa.nn.linears.compiled import compile_linears, format_of, round_linear
from solfa.nn.linears.half import halve_linears
from solfa.nn.linears.int8 import quantise_linears
from solfa.nn.linears.packed import pack_linears

_logger = logging.getLogger(__name__)

WeightLayout = Literal["fp32", "fp16", "int8", "int4"]
"""How a language model stores its weights on a CPU: 32, 16, 8 or 4 bits each."""
Way = Literal["kernel", "torch"]
"""What computes with them: C code that is compiled here, or the layers of torch."""
WAYS: tuple[Way, ...] = get_args(Way)

CacheBits = Literal[8, 16]
"""How many bits each number of the kernel's keys and values has."""

_CACHES: dict[CacheBits, torch.dtype] = {8: torch.int8, 16: torch.float16}
_CACHE_BITS: dict[WeightLayout, CacheBits] = {"fp32": 16, "fp16": 16, "int8": 8, "int4": 8}
_FORMATS: dict[WeightLayout, WeightFormat] = {
    "fp32": Float32Format(),
    "fp16": Float16Format(),
    "int8": Int8Format(),
    "int4": Int4Format(),
}


SMALL_MODEL = 8_000_000
"""A model with fewer weights fits into caches and takes milliseconds a step in any way."""


def count_weights(model: CodecLM) -> int:
    """Count the parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


def lay_out_weights(
    model: CodecLM, layout: WeightLayout, way: Way = "kernel", cache_bits: CacheBits | None = None
) -> CodecLM:
    """Replace the weights in place by others that are only good for generating, and cannot be moved or saved.

    `cache_bits` are those of the kernel's keys and values: by default 8 with weights of 8 or 4 bits, and otherwise 16.
    Eight take heads whose width is a multiple of 32. Where the kernel cannot be used, torch does the same work more
    slowly, and the log says why.

    >>> from solfa.models import CodecLM, CodecLMConfig, Conditions, GenerationSettings, generate, lay_out_weights
    >>> config = CodecLMConfig(num_codebooks=2, codebook_size=16, dim=32, num_layers=1, num_heads=2, ffn_dim=64)
    >>> model = lay_out_weights(CodecLM(config), "int8")
    >>> generate(model, Conditions.none(), 10, GenerationSettings(top_k=8), seeds=[1]).shape
    torch.Size([1, 2, 10])
    """
    cache_dtype = _cache_dtype(model.config.head_dim, layout, way, cache_bits)
    if way == "kernel":
        try:
            expect_heads(model.transformer)
            compile_linears(model, _FORMATS[layout])
            attach_stepper(model.transformer, cache_dtype)
            return model
        except NoKernelError as reason:
            # A small model is fast in any way, and its owner has more important things to read.
            level = logging.INFO if count_weights(model) < SMALL_MODEL else logging.WARNING
            _logger.log(level, "generating with torch instead of the C kernel, which is slower: %s", reason)
    return _IN_TORCH[layout](model)


def _cache_dtype(head_dim: int, layout: WeightLayout, way: Way, cache_bits: CacheBits | None) -> torch.dtype:
    """Choose the numbers of a cache; refuse a choice that cannot be had."""
    fits = head_dim % BYTE_HEAD == 0
    if cache_bits is None:
        return _CACHES[_CACHE_BITS[layout] if fits else 16]
    if way == "torch":
        raise ConfigError(
            f"cache_bits: found {cache_bits} for the way torch, whose cache has the dtype of the model; leave it out"
        )
    if cache_bits == 8 and not fits:
        raise ConfigError(
            f"cache_bits: expected heads of a multiple of {BYTE_HEAD} channels for 8, found {head_dim}; leave it out"
        )
    return _CACHES[cache_bits]


def _round_to_int4(model: CodecLM) -> CodecLM:
    """Round the weights as the kernel does; torch has no product of such weights, so it is none the faster."""
    for name, module in model.named_modules():
        if type(module) is nn.Linear:
            round_linear(module, format_of(name, Int4Format()))
    return pack_linears(model)


_IN_TORCH: dict[WeightLayout, Callable[[CodecLM], CodecLM]] = {
    "fp32": pack_linears,
    "fp16": halve_linears,
    "int8": quantise_linears,
    "int4": _round_to_int4,
}
