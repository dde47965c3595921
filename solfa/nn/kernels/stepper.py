"""Step a transformer decoder in C: all its layers in one call, over keys and values in 16 bits.

In PyTorch, a step of 24 layers is 600 small operations, which take longer than reading weights of four bits. Keys and
values are stored as float16 (a relative error of at most 2^-11) and summed in float32; at the end of a long clip, they
are as many bytes as the weights.
"""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from solfa.nn.kernels.library import NoKernelError
from solfa.nn.kernels.structures import Decoder, DecoderKernel, Layer, Step, load_decoder, padded
from solfa.nn.key_value_cache import KeyValueCache
from solfa.nn.linears.compiled import CompiledLinear
from solfa.nn.positions import Rotation
from solfa.nn.transformer import Transformer, TransformerLayer

_HEAD, _WIDEST_HEAD = 16, 128
"""What the widths of heads are multiples of, and the largest."""
BYTE_HEAD = 32
"""What they are multiples of for keys and values of 8 bits."""


class _Prepared(NamedTuple):
    """What the steps of one cache have in common; the tensors are kept because the structures point to them."""

    decoder: Decoder
    step: Step
    kept: Sequence[object]


class DecoderStepper:
    """Reads one step of each row with the C kernel."""

    def __init__(self, kernel: DecoderKernel, cache_dtype: torch.dtype) -> None:
        self._kernel, self.cache_dtype = kernel, cache_dtype
        self._prepared: WeakKeyDictionary[KeyValueCache, _Prepared] = WeakKeyDictionary()

    def __deepcopy__(self, memo: object) -> "DecoderStepper":
        return DecoderStepper(self._kernel, self.cache_dtype)

    def step(
        self,
        transformer: Transformer,
        x: Float[Tensor, "B 1 D"],
        angles: Rotation | None,
        condition: Float[Tensor, "B L D"] | None,
        mask: Bool[Tensor, "B L"] | None,
        cache: KeyValueCache,
    ) -> Float[Tensor, "B 1 D"]:
        """Append one step to the cache and return what the heads read."""
        cache.expect_room(1)
        prepared = self._prepared.get(cache)
        if prepared is None:
            prepared = self._prepared[cache] = _prepare(self._kernel, transformer, condition, mask, cache)
        step = prepared.step
        rows = torch.zeros(len(x), prepared.decoder.padded)
        rows[:, : x.shape[2]] = x[:, 0]
        step.x, step.position, step.num_threads = rows.data_ptr(), cache.position, torch.get_num_threads()
        if angles is not None:
            step.cosine, step.sine = angles.cos.data_ptr(), angles.sin.data_ptr()
        self._kernel.step(ctypes.byref(prepared.decoder), ctypes.byref(step))
        cache.advance(1)
        return rows[:, None, : x.shape[2]]


def attach_stepper(transformer: Transformer, cache_dtype: torch.dtype = torch.float16) -> None:
    """Let a transformer whose linear layers are compiled read single steps in C; caches are of float16 or int8."""
    expect_heads(transformer)
    transformer.stepper = DecoderStepper(load_decoder(), cache_dtype)


def expect_heads(transformer: Transformer) -> None:
    """Refuse heads that the kernel cannot read."""
    dim, num_heads = transformer.norm.normalized_shape[0], _layers_of(transformer)[0].self_attention.num_heads
    width = dim // num_heads
    if width % _HEAD or width > _WIDEST_HEAD:
        raise NoKernelError(f"it has heads of a multiple of {_HEAD} up to {_WIDEST_HEAD} channels, not of {width}")


def _layers_of(transformer: Transformer) -> list[TransformerLayer]:
    layers = [layer for layer in transformer.layers if isinstance(layer, TransformerLayer)]
    assert len(layers) == len(transformer.layers)
    return layers


def _prepare(
    kernel: DecoderKernel,
    transformer: Transformer,
    condition: Tensor | None,
    mask: Tensor | None,
    cache: KeyValueCache,
) -> _Prepared:
    layers = _layers_of(transformer)
    dim, num_heads = transformer.norm.normalized_shape[0], layers[0].self_attention.num_heads
    described = [_describe(layer) for layer in layers]
    structures = (Layer * len(layers))(*(one for one, _ in described))
    norm = _norm(transformer.norm)
    decoder = Decoder(dim, padded(dim), num_heads, dim // num_heads, len(layers), structures, norm.data_ptr())
    step = Step(num_rows=cache.keys.shape[1], max_steps=cache.keys.shape[3])
    step.keys, step.values = cache.keys.data_ptr(), cache.values.data_ptr()
    if cache.scales is not None:
        step.key_scales, step.value_scales = (part.data_ptr() for part in cache.scales)
    kept: list[object] = [structures, norm, *(tensors for _, tensors in described)]
    if condition is not None:
        kept += _point_to_condition(step, layers, condition, mask, cache)
    scratch = torch.empty(kernel.step_bytes(ctypes.byref(decoder), ctypes.byref(step)), dtype=torch.uint8)
    step.scratch = scratch.data_ptr()
    return _Prepared(decoder, step, [*kept, scratch])


def _describe(layer: TransformerLayer) -> tuple[Layer, list[Tensor]]:
    """Describe a layer to the kernel; also return the tensors that have to stay."""
    norms = {"self_norm": _norm(layer.self_norm), "ffn_norm": _norm(layer.ffn_norm)}
    linears: dict[str, nn.Module] = {
        "qkv": layer.self_attention.qkv,
        "out": layer.self_attention.out,
        "fc1": layer.fc1,
        "fc2": layer.fc2,
    }
    if layer.cross_norm is not None and layer.cross_attention is not None:
        norms["cross_norm"] = _norm(layer.cross_norm)
        linears |= {"query": layer.cross_attention.query, "cross_out": layer.cross_attention.out}
    structure = Layer(**{name: norm.data_ptr() for name, norm in norms.items()})
    for name, linear in linears.items():
        assert isinstance(linear, CompiledLinear)
        setattr(structure, name, linear.structure())
    return structure, list(norms.values())


def _norm(norm: nn.LayerNorm) -> Float[Tensor, "_"]:
    return torch.cat([norm.weight.detach(), norm.bias.detach()])


def _point_to_condition(
    step: Step, layers: Sequence[TransformerLayer], condition: Tensor, mask: Tensor | None, cache: KeyValueCache
) -> list[object]:
    """Let a step find the condition's keys and values, which are projected here unless a prompt has done that."""
    kept: list[object] = []
    pairs = []
    for index, layer in enumerate(layers):
        assert layer.cross_attention is not None
        layer.cross_attention.keys_and_values(condition, cache, index)
        stored = cache.cross[index]
        assert stored is not None
        pairs.append(tuple(part.contiguous() for part in stored))
    for name, parts in zip(("cross_keys", "cross_values"), zip(*pairs, strict=True), strict=True):
        pointers = (ctypes.c_void_p * len(parts))(*(part.data_ptr() for part in parts))
        setattr(step, name, ctypes.addressof(pointers))
        kept += [pointers, parts]
    step.num_conditions = condition.shape[1]
    if mask is not None:
        seen = mask.to(torch.uint8).contiguous()
        step.seen = seen.data_ptr()
        kept.append(seen)
    return kept
