"""Put an adapter on a network: its own weights are frozen, and what is stored of it is the adapter alone.

network ──► frozen ──► PEFT puts a low-rank product beside each chosen layer ──► only these are trained
                                                 │
stored: their weights · what the base did not have · which base they belong to, by the hash of its weights
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypedDict, runtime_checkable

import torch
from torch import Tensor, nn

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.adapters.lora import Lora
from solfa.models.adapters.targets import choose_targets
from solfa.pretrained.account import check_accounted
from solfa.pretrained.origin import Origin
from solfa.pretrained.tensors import weights_sha256

NAME = "default"
"""What PEFT calls the adapter inside a network; files do not contain it."""
_PLACE = "_attached_adapter"
_ADDED = "adapted"
"""The name of a part that was not a module of its network."""


@runtime_checkable
class Adaptable(Protocol):
    """A network of which adapters change one part; for all others, it is the whole."""

    def open_to_adapters(self) -> nn.Module:
        """Return the part that adapters change; it need not be a module of the network yet."""
        ...


class StoredAdapter(TypedDict):
    """An adapter in plain values, as checkpoints hold it."""

    lora: dict[str, Any]
    """Its settings."""
    layers: list[str]
    """The layers it changes, by their names in the part that it is for."""
    base: Origin
    weights: dict[str, Tensor]
    """By PEFT's names, without the adapter's."""
    fresh: dict[str, Any]
    """What the base did not have, by its name in the network: never trained, and not to be had anywhere else."""


class Attached(NamedTuple):
    """An adapter on a network."""

    part: nn.Module
    """The part of the network that it changes."""
    lora: Lora
    layers: tuple[str, ...]
    base: Origin
    fresh: tuple[str, ...] = ()
    """What the base did not have."""


def attach(network: nn.Module, lora: Lora, base: Origin, fresh: Iterable[str] = ()) -> Attached:
    """Freeze a network that holds the weights of its base, and put an adapter on it, which changes nothing yet."""
    part = part_to_adapt(network)
    layers = choose_targets(part, lora.targets)
    network.requires_grad_(False)
    _inject(part, lora, layers)
    if all(part is not module for module in network.modules()):
        network.add_module(_ADDED, part)  # so that it is trained, averaged and moved with the rest
    attached = Attached(part, lora, tuple(layers), base, tuple(fresh))
    setattr(network, _PLACE, attached)
    return attached


def detach(network: nn.Module) -> None:
    """Take the adapter off a network: each layer is again what it was."""
    attached = adapter_of(network)
    assert attached is not None
    part = attached.part
    for name, layer in lora_layers(part).items():
        outer, _, own = name.rpartition(".")
        setattr(part.get_submodule(outer), own, layer.get_base_layer())
    part.__dict__.pop("peft_config", None)
    delattr(network, _PLACE)
    if getattr(network, _ADDED, None) is part:
        delattr(network, _ADDED)


@contextmanager
def without_adapter(network: nn.Module) -> Iterator[None]:
    """Compute as the base does while the context is open."""
    attached = adapter_of(network)
    assert attached is not None
    layers = lora_layers(attached.part).values()
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def part_to_adapt(network: nn.Module) -> nn.Module:
    """Return the part of a network that adapters change."""
    return network.open_to_adapters() if isinstance(network, Adaptable) else network


def adapter_of(network: nn.Module) -> Attached | None:
    """Return the adapter that was put on a network."""
    return getattr(network, _PLACE, None)


def stored_adapter(network: nn.Module) -> StoredAdapter:
    """Return what is to be stored of a network with an adapter."""
    attached = adapter_of(network)
    assert attached is not None
    peft: Any = import_module("peft")
    weights = peft.get_peft_model_state_dict(attached.part, adapter_name=NAME, save_embedding_layers=False)
    whole = network.state_dict() if attached.fresh else {}
    return StoredAdapter(
        lora=attached.lora.model_dump(mode="json"),
        layers=list(attached.layers),
        base=attached.base,
        weights={name: value.detach() for name, value in weights.items()},
        fresh={name: whole[name] for name in attached.fresh},
    )


def load_adapter(network: nn.Module, stored: StoredAdapter, where: str = "adapter") -> None:
    """Load the weights of an adapter into the one that is on a network; another base is refused."""
    attached = adapter_of(network)
    assert attached is not None
    refuse_other_base(stored, attached.base, where)
    peft: Any = import_module("peft")
    own = peft.get_peft_model_state_dict(attached.part, adapter_name=NAME, save_embedding_layers=False)
    found = stored["weights"]
    both = own.keys() & found.keys()
    reshaped = [name for name in both if own[name].shape != found[name].shape]
    check_accounted(own.keys() - found.keys(), found.keys() - own.keys(), reshaped, where)
    peft.set_peft_model_state_dict(attached.part, dict(found), adapter_name=NAME)
    put_fresh(network, stored["fresh"])


def put_fresh(network: nn.Module, fresh: Mapping[str, Any]) -> None:
    """Put what a base did not have into a network."""
    if fresh:
        network.load_state_dict(dict(fresh), strict=False)


def refuse_other_base(stored: StoredAdapter, found: Origin, where: str) -> None:
    """Refuse to put an adapter on other weights than those it was trained on."""
    wanted = stored["base"]
    if wanted["sha256"] != found["sha256"]:
        raise ConfigError(
            f"{where}: it was trained on the weights {wanted['sha256'][:12]} of {wanted['source']}, found "
            f"{found['sha256'][:12]} of {found['source']}; use the base that it was trained on"
        )


def base_sha256(network: nn.Module, fresh: Sequence[str] = ()) -> str:
    """Hash the weights of a base in a network that no adapter is on, leaving out what the base did not have."""
    state = network.state_dict()
    return weights_sha256(
        {name: value for name, value in state.items() if isinstance(value, Tensor) and name not in fresh}
    )


def is_stored_adapter(state: Mapping[str, Any]) -> bool:
    """Say whether the state of a network is that of an adapter alone."""
    return state.keys() == StoredAdapter.__annotations__.keys()


def parse_lora(stored: StoredAdapter, where: str) -> Lora:
    """Read the settings of a stored adapter."""
    return parse_config(Lora, stored["lora"], where)


def lora_layers(part: nn.Module) -> dict[str, Any]:
    """List the layers that PEFT changed, by name."""
    layer: Any = import_module("peft.tuners.lora").LoraLayer
    return {name: module for name, module in part.named_modules() if isinstance(module, layer)}


def _inject(part: nn.Module, lora: Lora, layers: Sequence[str]) -> None:
    peft: Any = import_module("peft")
    peft.inject_adapter_in_model(lora.for_peft(layers), part, adapter_name=NAME)
    # PEFT also takes layers whose names end like one of these.
    surplus = lora_layers(part).keys() ^ set(layers)
    assert not surplus, f"PEFT changed other layers than were chosen: {sorted(surplus)}"


@torch.no_grad()
def without_base(network: nn.Module) -> dict[str, Tensor]:
    """Fill a network with NaN before a base is loaded, and return what it held, for `fresh_parts`."""
    held = {name: value for name, value in network.state_dict().items() if isinstance(value, Tensor)}
    before = {name: value.clone() for name, value in held.items()}
    for value in held.values():
        if _is_number(value):
            value.fill_(torch.nan)
    return before


@torch.no_grad()
def fresh_parts(network: nn.Module, before: Mapping[str, Tensor]) -> list[str]:
    """Name what a base did not fill, and give the tensors among it back what they held.

    What is no tensor of numbers between others (the labels of a table, a count) always counts: it may depend on both.
    """
    state = network.state_dict()
    empty = [name for name in before if name in state and _is_empty(state[name])]
    for name in empty:
        state[name].copy_(before[name])
    return [*empty, *(name for name, value in state.items() if not _is_number(value))]


def _is_empty(value: Tensor) -> bool:
    return _is_number(value) and value.numel() > 0 and bool(value.isnan().all())


def _is_number(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
