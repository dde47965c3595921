"""A SaShiMi's weights and state in the layout that the C kernel reads."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float, Float32
from torch import Tensor, nn

from solfa.models.sashimi.kernel.structures import BLOCK, BURST, PANEL, padded
from solfa.nn.s4d import S4D
from solfa.nn.sashimi_blocks import EPSILON, ChannelNorm, FeedForward, ShiftedNorm, SsmLayer
from solfa.ops.ssm import kernel_of, powers_of

FlatTensor = Float32[Tensor, "_"]


def pack_linear(linear: nn.Linear, out_groups: int = 1, in_groups: int = 1) -> FlatTensor:
    """Return the bias, then the matrix in panels of outputs; each group of channels is padded to whole blocks."""
    weight = linear.weight.reshape(out_groups, -1, in_groups, linear.in_features // in_groups)
    matrix = _fill(_fill(weight, 1), 3).flatten(2).flatten(0, 1)
    bias = _fill(linear.bias.reshape(out_groups, -1), 1).flatten()
    return torch.cat([bias, *(matrix[at : at + PANEL].mT.flatten() for at in range(0, len(matrix), PANEL))])


def pack_layers(layers: Iterable[nn.Module]) -> FlatTensor:
    """Return all layers, one after another."""
    parts = [torch.empty(0)]
    for layer in layers:
        if isinstance(layer, SsmLayer):
            mix = pack_linear(layer.mix, out_groups=2 if layer.glu else 1)
            parts += [_pack_norm(layer.norm), _pack_system(layer.ssm), mix]
        else:
            assert isinstance(layer, FeedForward), "a tier has layers of two kinds"
            parts += [_pack_norm(layer.norm), pack_linear(layer.fc1), pack_linear(layer.fc2)]
    return torch.cat(parts)


def pack_rows(rows: Float[Tensor, "*R D"]) -> FlatTensor:
    """Return rows of channels, each padded to whole blocks."""
    return _fill(rows, rows.ndim - 1).flatten()


def pack_state(ssm: S4D, state: Complex[Tensor, "B D Q"]) -> FlatTensor:
    """Return the states of a layer as the kernel stores them, 2 C s, clip after clip for every block of channels."""
    return _side_by_side(2 * ssm.system().readout * state).movedim(0, 1).flatten()


def _pack_norm(norm: nn.Module) -> FlatTensor:
    """Return the gain, the bias after the division, the shift before it, and what the variance is increased by."""
    zero = torch.zeros(1)
    if isinstance(norm, ShiftedNorm):
        parts = [norm.gain, zero, norm.shift, zero]
    else:
        assert isinstance(norm, ChannelNorm), "the kernel has one gain and one bias for all channels"
        parts = [norm.weight, norm.bias, zero, torch.full((1,), EPSILON)]
    return F.pad(torch.cat(parts), (0, BLOCK - len(parts)))


def _pack_system(ssm: S4D) -> FlatTensor:
    """Return the kernel's first values, including the skip, and the coefficients of the recurrences."""
    system = ssm.system()
    kernel = kernel_of(system, powers_of(system.log_decay, BURST), BURST)
    kernel[:, 0] += system.skip
    parts = [_side_by_side(z) for z in (system.decay, system.decay**BURST, 2 * system.readout * system.gain)]
    # In float64, because the recurrence would repeat an error in the radius at every step.
    radius = system.decay.to(torch.complex128).abs().square().float()
    parts.insert(1, _side_by_side(torch.complex(-radius, radius))[..., :1, :])
    return torch.cat([_fill(kernel.mT, 1).flatten(), torch.cat(parts, dim=-2).flatten()])


def _side_by_side(z: Complex[Tensor, "*B D Q"]) -> Float32[Tensor, "*B G Q two C"]:
    """Interleave the channels of each block, mode by mode, real parts before imaginary ones."""
    filled = _fill(torch.view_as_real(z), z.ndim - 2)
    grouped = filled.reshape(*z.shape[:-2], -1, BLOCK, *filled.shape[-2:])
    return grouped.movedim(-3, -1).contiguous()


def _fill(x: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*filled"]:
    missing = padded(x.shape[dim]) - x.shape[dim]
    return F.pad(x, (0, 0) * (x.ndim - 1 - dim) + (0, missing))
