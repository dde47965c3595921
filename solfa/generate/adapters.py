"""The adapters of a model that generates: found by name, each with a factor, and carried along in exports.

A model with adapters is its base with the changes of all of them merged in, so it draws as fast as any other. Only a
text model is not among the weights of its audio experts: an export then carries the adapter beside them.
"""

import math
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from solfa.errors import ConfigError
from solfa.generate.request import is_number
from solfa.models.adapters.adapter_files import is_adapter_folder, read_adapter
from solfa.models.adapters.attachment import StoredAdapter, is_stored_adapter
from solfa.models.adapters.merged_weights import WeightedAdapter
from solfa.pretrained.origin import Origin
from solfa.pretrained.tensors import weights_sha256
from solfa.xp.layout import BEST
from solfa.xp.state_file import read_state


@runtime_checkable
class LoadsPretrained(Protocol):
    """A generator that can load weights which were not trained here."""

    def load_pretrained(self, location: str) -> str:
        """Load them into its network; say in one line what was loaded."""
        ...


def find_adapter(folder: Path) -> StoredAdapter:
    """Read the adapter of an experiment's folder, or of one that `export_adapter` wrote."""
    if is_adapter_folder(folder):
        return read_adapter(folder)
    state = read_state(folder / BEST)["states"].get("model") if (folder / BEST).is_file() else None
    if not isinstance(state, Mapping) or not is_stored_adapter(state):
        raise ConfigError(
            f"{folder}: expected an adapter (an experiment that was trained with adapter=lora, or a folder with "
            "adapter_config.json), found none"
        )
    stored: Any = state
    return stored  # type: ignore[no-any-return]


def with_factors(own: Sequence[WeightedAdapter], wanted: Mapping[Path, float]) -> tuple[WeightedAdapter, ...]:
    """Add adapters with their factors to those of a model; one that is there already gets the new factor."""
    found = {sha256_of(adapter.stored): adapter for adapter in own}
    for folder, factor in wanted.items():
        if not is_number(factor) or not math.isfinite(factor):
            raise ConfigError(f"`adapters`: expected a number for {folder.name}, such as 0.5, found {factor!r}")
        stored = find_adapter(folder)
        found[sha256_of(stored)] = WeightedAdapter(stored, factor, folder.name)
    return tuple(found.values())


def adapter_facts(adapters: Sequence[WeightedAdapter]) -> list[dict[str, Any]]:
    """Say in plain values which adapters change a model, and by how much."""
    return [
        {"adapter": adapter.where, "sha256": sha256_of(adapter.stored), "factor": adapter.factor}
        for adapter in adapters
    ]


def sha256_of(stored: StoredAdapter) -> str:
    """Hash the weights of an adapter."""
    return weights_sha256(stored["weights"])


def pack_adapters(adapters: Sequence[WeightedAdapter]) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Return adapters as plain values, and their tensors by name."""
    plain: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    for number, (stored, factor, where) in enumerate(adapters):
        notes = {"lora": stored["lora"], "layers": stored["layers"], "base": dict(stored["base"])}
        fresh = {name: value for name, value in stored["fresh"].items() if not isinstance(value, Tensor)}
        plain.append({**notes, "fresh": fresh, "factor": factor, "where": where})
        for kind, named in (("weights", stored["weights"]), ("fresh", stored["fresh"])):
            tensors |= {_key(number, kind, name): value for name, value in named.items() if isinstance(value, Tensor)}
    return plain, tensors


def unpack_adapters(plain: Sequence[Mapping[str, Any]], state: MutableMapping[str, Any]) -> tuple[WeightedAdapter, ...]:
    """Undo `pack_adapters`, taking the tensors out of `state`."""
    adapters = []
    for number, notes in enumerate(plain):
        tensors: dict[str, dict[str, Tensor]] = {"weights": {}, "fresh": {}}
        for kind, found in tensors.items():
            prefix = _key(number, kind, "")
            for name in [name for name in state if name.startswith(prefix)]:
                found[name.removeprefix(prefix)] = state.pop(name)
        stored = StoredAdapter(
            lora=notes["lora"],
            layers=notes["layers"],
            base=Origin(source=notes["base"]["source"], sha256=notes["base"]["sha256"]),
            weights=tensors["weights"],
            fresh={**tensors["fresh"], **notes["fresh"]},
        )
        adapters.append(WeightedAdapter(stored, notes["factor"], notes["where"]))
    return tuple(adapters)


def _key(number: int, kind: str, name: str) -> str:
    return f"adapters.{number}.{kind}.{name}"
