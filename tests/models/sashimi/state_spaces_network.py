"""The SaShiMi of state-spaces, restated from its mathematics: tensors by its names, and a slow network in float64.

Nothing here knows how Solfa computes: norms, pools and skips are written out, and a state-space layer is its
recurrence, one step after another.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass
class Original:
    """The sizes of a network, how it is stored, and settings as its checkpoints hold them."""

    dim: int = 4
    n_layers: int = 2
    pool: tuple[int, ...] = (2, 3)
    expand: int = 2
    ff: int = 2
    modes: int = 3
    bits: int = 4
    n_ssm: int | None = 1
    glu: bool = True
    unet: bool = False
    flat: bool = False
    """Up layers in one list, as its other U-Net has them."""
    standalone: bool = False
    """Torch's LayerNorm, convolutions, and no weight norms."""
    minimal: bool = False
    dt_per_mode: bool = False
    layer: dict[str, Any] = field(default_factory=dict)
    """Settings of its layers that differ from the defaults."""

    @property
    def settings(self) -> dict[str, Any]:
        layer = {"_name_": "s4", "mode": "diag", "init": "diag-lin", "dt_transform": "softplus", "disc": "zoh"}
        layer |= {"final_act": "glu" if self.glu else "id", "activation": "gelu", "n_ssm": self.n_ssm, "l_max": None}
        model = {"_name_": "sashimi", "n_layers": self.n_layers, "pool": list(self.pool), "prenorm": True}
        model |= {"residual": "R", "norm": "layer", "interp": 0, "dropout": 0.0, "layer": {**layer, **self.layer}}
        if self.minimal:
            model["layer"] = {"_name_": "s4d"}
        if self.standalone:  # the settings of its layers are among its own
            model = {**model, "_name_": "sashimi_standalone", **model.pop("layer")}
        return {"model": model, "dataset": {"_name_": "sc09", "bits": self.bits, "quantization": "mu-law"}}

    def width(self, tier: int) -> int:
        return self.dim * self.expand**tier


def random_state(net: Original, seed: int = 0) -> dict[str, Tensor]:
    """Draw all tensors of a network, in float64; none is left at a value that would hide a mistake."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, scale: float = 0.5, around: float = 0.0) -> Tensor:
        return around + scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    state: dict[str, Tensor] = {}
    classes = 1 << net.bits
    state["encoder.1.0.weight"] = draw(classes, net.dim, scale=1.0)
    state["decoder.0.0.output_transform.weight"] = draw(classes, net.dim)
    state["decoder.0.0.output_transform.bias"] = draw(classes)
    state |= {"model.norm.weight": draw(net.dim, around=1.0), "model.norm.bias": draw(net.dim)}

    def linear(name: str, rows: int, columns: int, *, normed: bool = False, conv: bool = False) -> None:
        extra = (1,) if conv else ()
        state[f"{name}.bias"] = draw(rows)
        state[f"{name}.weight{'_v' if normed else ''}"] = draw(rows, columns, *extra)
        if normed:
            state[f"{name}.weight_g"] = draw(rows, 1, *extra, around=1.0)

    def begin(name: str, dim: int) -> None:
        if net.standalone:
            state.update({f"{name}.norm.weight": draw(dim, around=1.0), f"{name}.norm.bias": draw(dim)})
        else:
            state.update({f"{name}.norm.norm.s": draw(1, around=1.0), f"{name}.norm.norm.m": draw(1)})

    def pair(name: Callable[[int], str], dim: int) -> None:
        ssm, feed_forward = name(0), name(1)
        begin(ssm, dim)
        begin(feed_forward, dim)
        linear(f"{feed_forward}.layer.ff.0.0", net.ff * dim, dim, conv=net.standalone)
        linear(f"{feed_forward}.layer.ff.2", dim, net.ff * dim, conv=net.standalone)
        linear(f"{ssm}.layer.output_linear.0", (2 if net.glu else 1) * dim, dim, conv=net.minimal)
        inside = f"{ssm}.layer" if net.minimal else f"{ssm}.layer.layer"
        kernel = f"{inside}.kernel"
        systems = dim if net.n_ssm is None else net.n_ssm
        if net.minimal:
            state[f"{inside}.D"] = draw(dim)
            state[f"{kernel}.C"] = draw(dim, net.modes, 2)
            state[f"{kernel}.log_dt"] = draw(dim, around=-2.0)
            state[f"{kernel}.log_A_real"] = draw(dim, net.modes, around=-0.7)
            state[f"{kernel}.A_imag"] = draw(dim, net.modes, scale=3.0)
        else:
            state[f"{inside}.D"] = draw(1, dim)
            state[f"{kernel}.C"] = draw(1, dim, net.modes, 2)
            state[f"{kernel}.B"] = draw(1, systems, net.modes, 2, around=1.0)
            state[f"{kernel}.inv_dt"] = draw(dim, net.modes if net.dt_per_mode else 1, around=-2.0)
            state[f"{kernel}.A_real"] = draw(systems, net.modes, around=0.7).abs()
            state[f"{kernel}.A_imag"] = draw(systems, net.modes, scale=3.0)

    count, tiers = 2 * net.n_layers, len(net.pool)
    for at in range(0, count, 2):
        pair(lambda which, at=at: f"model.c_layers.{at + which}", net.width(tiers))  # type: ignore[misc]
    for tier, pool in enumerate(net.pool):
        dim, wider, back = net.width(tier), net.width(tier + 1), tiers - 1 - tier
        first = tier * (count + 1) if net.unet else tier
        for at in range(0, count if net.unet else 0, 2):
            pair(lambda which, at=first + at: f"model.d_layers.{at + which}", dim)  # type: ignore[misc]
        kinds = {"normed": not net.standalone, "conv": net.standalone}
        linear(f"model.d_layers.{first + (count if net.unet else 0)}.linear", wider, dim * pool, **kinds)
        linear(f"{up_name(net, back, 0)}.linear", dim * pool, wider, **kinds)
        for at in range(0, count, 2):
            pair(lambda which, at=at, back=back: up_name(net, back, 1 + at + which), dim)  # type: ignore[misc]
    return state


def up_name(net: Original, block: int, layer: int) -> str:
    return f"model.u_layers.{block * (2 * net.n_layers + 1) + layer if net.flat else f'{block}.{layer}'}"


@dataclass
class Network:
    """The forward pass, in float64, over whole sequences whose length all pools divide."""

    net: Original
    state: Mapping[str, Tensor]

    def __call__(self, classes: Tensor) -> Tensor:
        x = self.state["encoder.1.0.weight"][classes].mT  # [B, D, L]
        down = self.blocks("model.d_layers")
        skips = [x]
        for name in down:
            x = self.pooled(name, x) if self.has_pool(name) else self.layer(name, x)
            skips.append(x)
        for name in self.blocks("model.c_layers"):
            x = self.layer(name, x)
        x = x + skips.pop()
        for block in range(len(self.net.pool)):
            names = [up_name(self.net, block, at) for at in range(2 * self.net.n_layers + 1)]
            x = self.unpooled(names[0], x, self.net.pool[len(self.net.pool) - 1 - block]) + skips.pop()
            begun = x
            for name in names[1:]:
                x = self.layer(name, x)
                if self.net.unet:
                    x = x + skips.pop()
            x = x if self.net.unet else x + begun
        normed = F.layer_norm(x.mT, (self.net.dim,), self.state["model.norm.weight"], self.state["model.norm.bias"])
        return self.linear("decoder.0.0.output_transform", normed.mT).mT

    def blocks(self, prefix: str) -> list[str]:
        numbers = {int(name.split(".")[2]) for name in self.state if name.startswith(f"{prefix}.")}
        return [f"{prefix}.{number}" for number in sorted(numbers)]

    def has_pool(self, name: str) -> bool:
        return f"{name}.linear.bias" in self.state

    def linear(self, name: str, x: Tensor) -> Tensor:
        if f"{name}.weight_v" in self.state:
            direction, length = self.state[f"{name}.weight_v"].squeeze(), self.state[f"{name}.weight_g"].flatten()
            weight = torch.stack(
                [length[row] * vector / math.sqrt(float(vector @ vector)) for row, vector in enumerate(direction)]
            )
        else:
            weight = self.state[f"{name}.weight"].flatten(1)
        return torch.einsum("oi,bil->bol", weight, x) + self.state[f"{name}.bias"][:, None]

    def normed(self, name: str, x: Tensor) -> Tensor:
        if self.net.standalone:
            weight, bias = self.state[f"{name}.norm.weight"], self.state[f"{name}.norm.bias"]
            return F.layer_norm(x.mT, (x.shape[1],), weight, bias).mT
        mean = x.mean(1, keepdim=True)
        deviation = ((x - mean) ** 2).mean(1, keepdim=True).sqrt()
        return self.state[f"{name}.norm.norm.s"] / deviation * (x - mean + self.state[f"{name}.norm.norm.m"])

    def layer(self, name: str, x: Tensor) -> Tensor:
        u = self.normed(name, x)
        if f"{name}.layer.ff.2.bias" in self.state:
            return x + self.linear(f"{name}.layer.ff.2", F.gelu(self.linear(f"{name}.layer.ff.0.0", u)))
        mixed = self.linear(f"{name}.layer.output_linear.0", F.gelu(self.system(name, u)))
        if self.net.glu:
            value, gate = mixed.chunk(2, dim=1)
            mixed = value * torch.sigmoid(gate)
        return x + mixed

    def system(self, name: str, u: Tensor) -> Tensor:
        a, b, c, dt, skip = self.parameters(name, u.shape[1])
        z = dt * a
        if self.net.layer.get("disc") == "bilinear":
            decay, gain = (1 + z / 2) / (1 - z / 2), dt * b / (1 - z / 2)
        else:
            decay, gain = z.exp(), (z.exp() - 1) / a * b
        memory = torch.zeros(len(u), *decay.shape, dtype=torch.complex128)
        heard = []
        for now in u.unbind(-1):
            memory = decay * memory + gain * now[..., None]
            heard.append(2 * (c * memory).sum(-1).real + skip * now)
        return torch.stack(heard, dim=-1)

    def parameters(self, name: str, dim: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        if self.net.minimal:
            own = {key: self.state[f"{name}.layer.kernel.{key}"] for key in ("C", "log_dt", "log_A_real", "A_imag")}
            a = -own["log_A_real"].exp() + 1j * own["A_imag"]
            c = torch.view_as_complex(own["C"])
            return a, torch.ones_like(a), c, own["log_dt"].exp()[:, None], self.state[f"{name}.layer.D"]
        own = {key: self.state[f"{name}.layer.layer.kernel.{key}"] for key in ("C", "B", "inv_dt", "A_real", "A_imag")}
        read: dict[str, Callable[[Tensor], Tensor]] = {
            "exp": torch.exp,
            "none": lambda x: x,
            "softplus": lambda x: (1 + x.exp()).log(),
            "sigmoid": lambda x: 1 / (1 + (-x).exp()),
            "relu": lambda x: x.clamp(min=0) + 1e-4,
        }
        kinds = {"dt_transform": "softplus", "real_transform": "exp", "imag_transform": "none", **self.net.layer}
        a = -read[kinds["real_transform"]](own["A_real"]) - 1j * read[kinds["imag_transform"]](own["A_imag"])
        b, c = torch.view_as_complex(own["B"])[0], torch.view_as_complex(own["C"])[0]
        rows = [channel % len(a) for channel in range(dim)]
        return a[rows], b[rows], c, read[kinds["dt_transform"]](own["inv_dt"]), self.state[f"{name}.layer.layer.D"][0]

    def pooled(self, name: str, x: Tensor) -> Tensor:
        pool = (
            self.state[f"{name}.linear.weight" if self.net.standalone else f"{name}.linear.weight_v"].shape[1]
            // x.shape[1]
        )
        groups = [x[..., at : at + pool].flatten(1) for at in range(0, x.shape[-1], pool)]  # all steps of a channel
        return self.linear(f"{name}.linear", torch.stack(groups, dim=-1))

    def unpooled(self, name: str, x: Tensor, pool: int) -> Tensor:
        steps = self.linear(f"{name}.linear", x)
        late = torch.cat([torch.zeros_like(steps[..., :1]), steps[..., :-1]], dim=-1)
        return late.unflatten(1, (-1, pool)).transpose(2, 3).flatten(2)
