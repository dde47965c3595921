"""How state-spaces stores the layers of a SaShiMi: its tensors by name, and how each becomes one of ours.

    ours                        theirs (weight norms are multiplied out; 1x1 convolutions are linear layers)
    norm                        norm.norm.s, .m (shifted), or norm.weight, .bias (per channel)
    ssm.dynamics, ssm.C, ssm.D  layer.layer.kernel.inv_dt, .A_real, .A_imag, .B, .C, and layer.layer.D
                                or, in its minimal S4D, layer.kernel.log_dt, .log_A_real, .A_imag, .C, and layer.D
    mix                         layer.output_linear.0
    fc1, fc2                    layer.ff.0.0, layer.ff.2
    down.linear, up.linear      linear; theirs has the steps of a channel side by side, ours the channels of a step

Everything is computed in float64.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Complex, Float
from torch import Tensor

from solfa.models.sashimi.state_spaces_settings import StateSpacesSettings, Transform
from solfa.nn.sashimi_blocks import NormKind
from solfa.ops.ssm import complex_expm1

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
Tensors = dict[str, Tensor]


class TensorGroup(NamedTuple):
    """Some tensors of theirs that become some of ours."""

    wanted: dict[str, Shape]
    """Their names and shapes."""
    make: Callable[[Mapping[str, Tensor]], Tensors]
    """Make ours from theirs, both by name."""


def size_of(names: Shapes, name: str, axis: int) -> int:
    """Return a size, or 1 where there is none: shapes that are wrong are named when all are compared."""
    shape = names.get(name, ())
    return max(1, shape[axis]) if -len(shape) <= axis < len(shape) else 1


def norm_kind(names: Shapes, layer: str) -> NormKind:
    """Tell which norm a layer begins with."""
    return "shifted" if f"{layer}.norm.norm.s" in names else "per_channel"


def norm_part(ours: str, theirs: str, kind: NormKind, dim: int, names: Shapes) -> TensorGroup:
    """Map the norm of a layer of width `dim`."""
    if kind == "shifted":
        pairs = {f"{ours}.norm.gain": f"{theirs}.norm.norm.s", f"{ours}.norm.shift": f"{theirs}.norm.norm.m"}
        return _copied(pairs, (1,))
    inner = f"{theirs}.norm.norm" if f"{theirs}.norm.norm.weight" in names else f"{theirs}.norm"
    return _copied({f"{ours}.norm.{name}": f"{inner}.{name}" for name in ("weight", "bias")}, (dim,))


def linear_part(
    ours: str, theirs: str, size: tuple[int, int], names: Shapes, change: Callable[[Tensor], Tensor] = lambda x: x
) -> TensorGroup:
    """Map a linear layer of `size` (outputs, inputs); `change` reorders the outputs of its weight and bias."""
    bias, plain = f"{theirs}.bias", f"{theirs}.weight"
    spellings = (("weight_g", "weight_v"), ("parametrizations.weight.original0", "parametrizations.weight.original1"))
    normed = next((pair for pair in spellings if f"{theirs}.{pair[1]}" in names), None)
    direction = f"{theirs}.{normed[1]}" if normed else plain
    extra = names.get(direction, ())[2:] if names.get(direction, ())[2:] in ((), (1,)) else ()
    wanted: dict[str, Shape] = {direction: (*size, *extra), bias: size[:1]}
    if normed:
        wanted[f"{theirs}.{normed[0]}"] = (size[0], 1, *extra)

    def make(found: Mapping[str, Tensor]) -> Tensors:
        weight = found[direction].flatten(1)
        if normed:
            weight = found[f"{theirs}.{normed[0]}"].flatten(1) * weight / weight.norm(dim=1, keepdim=True)
        return {f"{ours}.weight": change(weight), f"{ours}.bias": change(found[bias])}

    return TensorGroup(wanted, make)


def down_part(ours: str, theirs: str, dim: int, wider: int, pool: int, names: Shapes) -> TensorGroup:
    """Map the pool that turns `pool` steps of `dim` channels into one that is `wider`."""
    part = linear_part(ours, theirs, (wider, dim * pool), names)

    def make(found: Mapping[str, Tensor]) -> Tensors:
        made = part.make(found)
        weight = made[f"{ours}.weight"].view(wider, dim, pool).transpose(1, 2).reshape(wider, pool * dim)
        return {**made, f"{ours}.weight": weight}

    return TensorGroup(part.wanted, make)


def up_part(ours: str, theirs: str, wider: int, dim: int, pool: int, names: Shapes) -> TensorGroup:
    """Map the way back, from one `wider` step to `pool` steps of `dim` channels."""

    def reordered(rows: Tensor) -> Tensor:
        return rows.view(dim, pool, *rows.shape[1:]).transpose(0, 1).flatten(0, 1)

    return linear_part(ours, theirs, (dim * pool, wider), names, reordered)


def is_minimal(names: Shapes, layer: str) -> bool:
    """Say whether a layer is the minimal S4D of the examples."""
    return f"{layer}.layer.kernel.log_A_real" in names


def system_part(
    ours: str, theirs: str, dim: int, modes: int, tied: bool, names: Shapes, settings: StateSpacesSettings
) -> TensorGroup:
    """Map the dynamics of a layer."""
    if is_minimal(names, theirs):
        kernel, skip = f"{theirs}.layer.kernel", f"{theirs}.layer.D"
        wanted: dict[str, Shape] = {f"{kernel}.{name}": (dim, modes) for name in ("log_A_real", "A_imag")}
        wanted |= {f"{kernel}.log_dt": (dim,), f"{kernel}.C": (dim, modes, 2), skip: (dim,)}
    else:
        kernel, skip = f"{theirs}.layer.layer.kernel", f"{theirs}.layer.layer.D"
        systems, steps = size_of(names, f"{kernel}.A_real", 0), size_of(names, f"{kernel}.inv_dt", -1)
        wanted = {f"{kernel}.{name}": (systems, modes) for name in ("A_real", "A_imag")}
        wanted |= {f"{kernel}.inv_dt": (dim, modes if steps == modes else 1), f"{kernel}.B": (1, systems, modes, 2)}
        wanted |= {f"{kernel}.C": (1, dim, modes, 2), skip: (1, dim)}

    def make(found: Mapping[str, Tensor]) -> Tensors:
        own = {name: found[f"{kernel}.{name}"] for name in ("A_imag", "C")}
        if is_minimal(names, theirs):
            a = torch.complex(-found[f"{kernel}.log_A_real"].exp(), own["A_imag"])
            dt, b, c = found[f"{kernel}.log_dt"].exp()[:, None], torch.ones_like(a), own["C"]
        else:
            real = positive(found[f"{kernel}.A_real"], settings.real_transform)
            a = torch.complex(-real, -positive(own["A_imag"], settings.imag_transform))
            dt = positive(found[f"{kernel}.inv_dt"], settings.dt_transform)
            b, c = torch.view_as_complex(found[f"{kernel}.B"][0].contiguous()), own["C"][0]
        if not tied:
            a, b, dt = per_channel(a, b, dt, settings.disc, dim)
        dynamics = {
            "log_A_real": (-a.real).log(),
            "A_imag": a.imag,
            "B": torch.view_as_real(b),
            "log_dt": dt[:, 0].log(),
        }
        made = {f"{ours}.dynamics.{name}": value for name, value in dynamics.items()}
        return {**made, f"{ours}.C": c, f"{ours}.D": found[skip].flatten()}

    return TensorGroup(wanted, make)


def per_channel(
    a: Complex[Tensor, "G Q"], b: Complex[Tensor, "G Q"], dt: Float[Tensor, "D _"], disc: str, dim: int
) -> tuple[Complex[Tensor, "D Q"], Complex[Tensor, "D Q"], Float[Tensor, "D 1"]]:
    """Find A, B and a step for each channel that give, with the input held constant, the same discrete system.

    Channel h uses the system h modulo G. A bilinear system and one with a step per mode become others that are equal
    at the samples.
    """
    rows = torch.arange(dim) % len(a)
    a, b = a[rows], b[rows]
    z = dt * a
    if disc == "bilinear":
        log_decay, gain = ((1 + z / 2) / (1 - z / 2)).log(), b * dt / (1 - z / 2)
    else:
        log_decay, gain = z, complex_expm1(z) / a * b
    step = dt.log().mean(dim=1, keepdim=True).exp()
    found = log_decay / step
    return found, gain * found / complex_expm1(log_decay), step


def positive(stored: Tensor, transform: Transform) -> Tensor:
    """Return the number that is stored under a transform."""
    return _TRANSFORMS[transform](stored)


def _relu(stored: Tensor) -> Tensor:
    return F.relu(stored) + 1e-4


_TRANSFORMS: Mapping[Transform, Callable[[Tensor], Tensor]] = {
    "none": lambda stored: stored,
    "exp": torch.exp,
    "relu": _relu,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
}


def _copied(pairs: Mapping[str, str], shape: Shape) -> TensorGroup:
    def make(found: Mapping[str, Tensor]) -> Tensors:
        return {ours: found[theirs] for ours, theirs in pairs.items()}

    return TensorGroup(dict.fromkeys(pairs.values(), shape), make)
