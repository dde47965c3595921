"""Load a SaShiMi that was trained with state-spaces: S4D layers, categorical classes, every tensor accounted for.

    FILE.ckpt ──► names and shapes say how the network is built ──► its settings say how numbers are meant ──► ours

What it computes is the same (`tests/models/sashimi/test_state_spaces.py` restates that network). Its clips begin with
the class of silence, so our start of a clip gets the embedding of that class.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.sashimi.config import CategoricalHeadConfig, SashimiModelConfig
from solfa.models.sashimi.state_spaces_settings import StateSpacesSettings, find_settings, read_settings
from solfa.models.sashimi.state_spaces_tensors import (
    Shape,
    Shapes,
    TensorGroup,
    down_part,
    is_minimal,
    linear_part,
    norm_kind,
    norm_part,
    size_of,
    system_part,
    up_part,
)
from solfa.pretrained.account import check_accounted
from solfa.pretrained.lightning import read_lightning

_EMBEDDING = re.compile(r"encoder\.(\d+\.)*weight")
_DECODER = re.compile(r"decoder\.(\d+\.)*output_transform\.weight")
_LAYER = re.compile(r"model\.([cdu]_layers(?:\.\d+)+)\.(?:layer|norm|linear)\.")
_SYSTEMS = re.compile(r"\.(?:inv_dt|log_dt)$")
_LOW_RANK, _VERSION_3 = re.compile(r"\.kernel\.P$"), re.compile(r"\.kernel\.kernel\.|\.(?:inv|log)_w_real$")


class LoadedStateSpaces(NamedTuple):
    """A network of state-spaces in our terms."""

    config: SashimiModelConfig
    state: dict[str, Tensor]
    """The weights of a `Sashimi` with this config."""
    codec: str
    """The codec whose classes it reads; the grid of state-spaces is a little different, see the docs."""
    num_tensors: int
    """How many tensors the file has; all of them were used."""


def load_state_spaces(path: Path, dtype: torch.dtype = torch.float32) -> LoadedStateSpaces:
    """Read a `.ckpt`, or a file with the weights alone in the folder of its run."""
    checkpoint = read_lightning(path)
    where = f"checkpoint {path}"
    _refuse_others(checkpoint.state, where)
    return convert(checkpoint.state, find_settings(path, checkpoint.settings), where, dtype)


def convert(
    tensors: Mapping[str, Tensor], told: Mapping[str, Any], where: str, dtype: torch.dtype = torch.float32
) -> LoadedStateSpaces:
    """Turn the tensors and settings of a network into ours; `where` begins the sentence about what is wrong."""
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    layout = _Layout.read(shapes, where)
    settings = read_settings(told, where)
    config = layout.config(settings, where)
    parts = list(layout.parts(config, settings))
    wanted: dict[str, Shape] = {name: shape for part in parts for name, shape in part.wanted.items()}
    wrong = [f"{name} {list(shapes[name])} instead of {list(wanted[name])}" for name in wanted.keys() & shapes.keys()
             if shapes[name] != wanted[name]]  # fmt: skip
    check_accounted(wanted.keys() - shapes.keys(), shapes.keys() - wanted.keys(), wrong, where)
    exact = {name: tensor.double() for name, tensor in tensors.items()}
    state = {name: tensor.to(dtype) for part in parts for name, tensor in part.make(exact).items()}
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise ConfigError(f"{where}: {name} is not finite; the network was not stable, and cannot be represented")
    return LoadedStateSpaces(config, state, settings.codec, len(shapes))


class _Layout(NamedTuple):
    """Where the layers of a network are, as the names and shapes of its tensors tell."""

    shapes: Shapes
    embedding: str
    decoder: str
    centre: list[str]
    """Prefixes of the layers at the slowest rate."""
    tiers: list[tuple[list[str], str, str, list[str]]]
    """For every faster rate, the fastest first: layers before the pool, the pool, the way back, layers after it."""

    @classmethod
    def read(cls, shapes: Shapes, where: str) -> "_Layout":
        embedding = _only(shapes, _EMBEDDING, "encoder.*.weight (the embedding of classes)", where)
        decoder = _only(shapes, _DECODER, "decoder.*.output_transform.weight (the logits of classes)", where)
        found = dict.fromkeys(match[1] for name in shapes if (match := _LAYER.match(name)))
        # By number, not by letter: c_layers.10 comes after c_layers.9.
        prefixes = [
            f"model.{name}" for name in sorted(found, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])
        ]
        by_path = {kind: [name for name in prefixes if name.startswith(f"model.{kind}_layers.")] for kind in "cdu"}
        down, up = (_cut(by_path[kind], shapes, ends=kind == "d") for kind in "du")
        if not by_path["c"] or len(down) != len(up):
            raise ConfigError(
                f"{where}: expected the layers of a SaShiMi (model.c_layers, and as many pools in model.d_layers as in "
                f"model.u_layers), found {len(by_path['c'])} layers, {len(down)} and {len(up)} pools"
            )
        tiers = [
            (before, pool, back, after)
            for (before, pool), (after, back) in zip(down, reversed(up), strict=True)
        ]  # fmt: skip
        return cls(shapes, embedding, decoder, by_path["c"], tiers)

    def config(self, settings: StateSpacesSettings, where: str) -> SashimiModelConfig:
        """Derive the sizes of the network; layers that differ from the first are found by their shapes later."""
        num_classes, dim = self.shapes[self.embedding]
        if dim == 0 or num_classes != 1 << settings.bits or self.shapes[self.decoder][0] != num_classes:
            raise ConfigError(
                f"{where}: expected an embedding and a logit for each of the {1 << settings.bits} classes of "
                f"{settings.bits} bits, found {num_classes} and {self.shapes[self.decoder][0]}; networks with another "
                "head cannot be loaded"
            )
        first, feed_forward = self._first_pair(where)
        kernel = f"{first}.layer.kernel" if is_minimal(self.shapes, first) else f"{first}.layer.layer.kernel"
        width = self._width(first)
        sizes = [self._pool_size(pool, where) for _, pool, _, _ in self.tiers]
        widths = [dim, *(rows for rows, _ in sizes)]
        pools = [columns // widths[at] for at, (_, columns) in enumerate(sizes)]
        is_tied = not is_minimal(self.shapes, first) and size_of(self.shapes, f"{kernel}.A_real", 0) == 1
        is_tied = is_tied and size_of(self.shapes, f"{kernel}.inv_dt", -1) == 1 and settings.disc == "zoh"
        values = {
            "num_classes": num_classes,
            "dim": dim,
            "n_layers": len(self.centre) // 2,
            "pool": pools,
            "expand": widths[1] // widths[0] if len(widths) > 1 else 1,
            "ff": self._rows(f"{feed_forward}.layer.ff.0.0") // width,
            "unet": any(before for before, *_ in self.tiers),
            "glu": self._rows(f"{first}.layer.output_linear.0") == 2 * width,
            "d_state": 2 * size_of(self.shapes, f"{kernel}.A_imag", -1),
            "tie": "tied" if is_tied else "per_channel",
            "norm": norm_kind(self.shapes, first),
            "dropout": settings.dropout,
            "output_head": CategoricalHeadConfig(),
        }
        return parse_config(SashimiModelConfig, values, where)

    def parts(self, config: SashimiModelConfig, settings: StateSpacesSettings) -> Iterator[TensorGroup]:
        """List what becomes what."""
        yield self._embedding_part()
        decoder = self.decoder.removesuffix(".weight")
        yield linear_part("projection", decoder, (self.shapes[self.embedding][0], config.dim), self.shapes)
        yield TensorGroup(
            {f"model.norm.{name}": (config.dim,) for name in ("weight", "bias")},
            lambda found: {f"norm.{name}": found[f"model.norm.{name}"] for name in ("weight", "bias")},
        )
        place = "tier"
        for depth, (before, pool, back, after) in enumerate(self.tiers):
            dim, wider, steps = config.width(depth), config.width(depth + 1), config.pool[depth]
            yield from self._layer_parts(f"{place}.down", before, dim, config, settings)
            yield down_part(f"{place}.pooled.down.linear", f"{pool}.linear", dim, wider, steps, self.shapes)
            yield up_part(f"{place}.pooled.up.linear", f"{back}.linear", wider, dim, steps, self.shapes)
            yield from self._layer_parts(f"{place}.up", after, dim, config, settings)
            place = f"{place}.pooled.inner"
        yield from self._layer_parts(f"{place}.up", self.centre, config.width(len(self.tiers)), config, settings)

    def _layer_parts(
        self, place: str, layers: list[str], dim: int, config: SashimiModelConfig, settings: StateSpacesSettings
    ) -> Iterator[TensorGroup]:
        for index, theirs in enumerate(layers):
            ours = f"{place}.{index}"
            yield norm_part(ours, theirs, config.norm or "shifted", dim, self.shapes)
            if index % 2:
                inner = config.ff * dim
                yield linear_part(f"{ours}.fc1", f"{theirs}.layer.ff.0.0", (inner, dim), self.shapes)
                yield linear_part(f"{ours}.fc2", f"{theirs}.layer.ff.2", (dim, inner), self.shapes)
            else:
                tied, modes = config.tie == "tied", config.d_state // 2
                yield system_part(f"{ours}.ssm", theirs, dim, modes, tied, self.shapes, settings)
                mixed = (2 if config.glu else 1) * dim
                yield linear_part(f"{ours}.mix", f"{theirs}.layer.output_linear.0", (mixed, dim), self.shapes)

    def _embedding_part(self) -> TensorGroup:
        name, (num_classes, dim) = self.embedding, self.shapes[self.embedding]

        def make(found: Mapping[str, Tensor]) -> dict[str, Tensor]:
            table = found[name]
            return {"embedding.weight": torch.cat([table, table[num_classes // 2 :][:1]])}

        return TensorGroup({name: (num_classes, dim)}, make)

    def _first_pair(self, where: str) -> tuple[str, str]:
        """Return the first two layers of the centre: one with a state, and a feed-forward layer."""
        if len(self.centre) % 2 or self._rows(f"{self.centre[1]}.layer.ff.0.0") == 0:
            raise ConfigError(
                f"{where}: expected a feed-forward layer after each state-space layer (ff, cff), found none; "
                "such networks have no counterpart here"
            )
        if self._rows(f"{self.centre[0]}.layer.output_linear.0") == 0:
            raise ConfigError(f"{where}: expected a linear layer that mixes channels (final_act), found none")
        return self.centre[0], self.centre[1]

    def _width(self, layer: str) -> int:
        skip = f"{layer}.layer.D" if is_minimal(self.shapes, layer) else f"{layer}.layer.layer.D"
        return size_of(self.shapes, skip, -1)

    def _rows(self, linear: str) -> int:
        return size_of(self.shapes, f"{linear}.bias", 0) if f"{linear}.bias" in self.shapes else 0

    def _pool_size(self, pool: str, where: str) -> tuple[int, int]:
        """Return the outputs and inputs of a pool's linear layer."""
        names = [f"{pool}.linear.{name}" for name in ("weight", "weight_v", "parametrizations.weight.original1")]
        found = next((self.shapes[name] for name in names if name in self.shapes), ())
        if len(found) < 2 or 0 in found:
            raise ConfigError(f"{where}: expected a matrix {' or '.join(names)}, found {list(found) or 'none'}")
        return found[0], found[1]


def _refuse_others(names: Collection[str], where: str) -> None:
    """Refuse networks whose tensors alone say that they are others."""
    if any(_VERSION_3.search(name) for name in names):
        raise ConfigError(
            f"{where}: expected the names of state-spaces 4, found those of version 3; convert it with that "
            "repository's checkpoints/convert_v3_to_v4.py"
        )
    if any(_LOW_RANK.search(name) for name in names):
        raise ConfigError(
            f"{where}: expected S4D layers (model.layer.mode=diag), found S4 with its low-rank part (kernel.P), which "
            "has no counterpart here; train it with model/layer=s4d"
        )
    if head := next((name for name in names if name.startswith("model.output_head.")), None):
        raise ConfigError(
            f"{where}: expected a logit per class, found another head ({head}), of which it is not known here what its "
            "numbers mean"
        )
    if not any(_SYSTEMS.search(name) for name in names):
        shown = ", ".join(sorted(names)[:3])
        raise ConfigError(f"{where}: expected a SaShiMi of state-spaces with S4D layers, found others ({shown}, ...)")


def _only(shapes: Shapes, pattern: re.Pattern[str], shown: str, where: str) -> str:
    found = [name for name in shapes if pattern.fullmatch(name)]
    if len(found) != 1 or len(shapes[found[0]]) != 2:
        raise ConfigError(f"{where}: expected one matrix {shown}, found {', '.join(found) or 'none'}")
    return found[0]


def _cut(layers: list[str], shapes: Shapes, *, ends: bool) -> list[tuple[list[str], str]]:
    """Cut a list of layers at its pools, which end (`ends`) or begin each piece: the layers and their pool."""
    pieces: list[tuple[list[str], str]] = []
    waiting: list[str] = []
    for layer in layers:
        if f"{layer}.linear.bias" in shapes:
            pieces.append((waiting if ends else [], layer))
            waiting = [] if ends else pieces[-1][0]
        else:
            waiting.append(layer)
    return pieces
