"""Decide which parameter gets which learning rate and weight decay, purely from names, types and settings.

There are three sources. The defaults exclude norms, biases and state-space parameters from weight decay. The model's
author may attach options to a tensor (`parameter._no_weight_decay = True`, `parameter._optim = {"lr": 1e-3}`, as
state-space code does). The user defines groups by glob patterns; the first match wins, multiplies the learning rate
and replaces the weight decay of parameters that decay.
"""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from pydantic import Field
from torch import nn

from solfa.config import Config, nearest
from solfa.errors import ConfigError

Parameters = nn.Module | Mapping[str, nn.Module] | Iterable[tuple[str, nn.Parameter]] | Iterable[nn.Parameter]

NO_DECAY = (
    "*.bias",
    "*.in_proj_bias",  # nn.MultiheadAttention
    "*.bias_ih_l*",  # recurrent layers
    "*.bias_hh_l*",
    "*.log_dt",  # state-space layers (S4D, Mamba)
    "*.log_A_real",
    "*.A_imag",
    "*.A_log",
    "*.dt_bias",
)
"""Names that never decay unless the config says otherwise; a pattern without a match is fine."""

_TENSOR_OPTIONS = ("lr", "weight_decay")


class ParameterGroup(Config):
    """Parameters whose dotted name matches a glob, and their settings."""

    pattern: str
    lr_scale: float = Field(default=1.0, gt=0.0)
    weight_decay: float | None = Field(default=None, ge=0.0)
    """Replaces the optimiser's weight decay, for parameters that decay at all."""


class Rules(NamedTuple):
    """The optimiser's settings and the exceptions from them."""

    lr: float
    weight_decay: float
    groups: tuple[ParameterGroup, ...] = ()
    no_decay: tuple[str, ...] = NO_DECAY


class Candidate(NamedTuple):
    """A parameter and the name that patterns are matched against."""

    name: str
    parameter: nn.Parameter
    is_norm: bool = False


class Group(NamedTuple):
    """Parameters that are treated alike."""

    name: str
    lr: float
    weight_decay: float
    parameters: tuple[tuple[str, nn.Parameter], ...]


def list_candidates(params: Parameters) -> tuple[list[Candidate], bool]:
    """List every distinct parameter, including frozen ones, and say whether they came with names.

    With several modules, the name starts with the module's: `model.layers.0.weight`.
    """
    if isinstance(params, nn.Module):
        return _distinct(_of_module("", params)), True
    if isinstance(params, Mapping):
        parts = (_of_module(f"{name}.", module) for name, module in params.items())
        return _distinct(found for part in parts for found in part), True
    listed = list(params)
    if all(isinstance(item, tuple) for item in listed):
        return _distinct(Candidate(*item) for item in listed if isinstance(item, tuple)), True
    plain = [item for item in listed if isinstance(item, nn.Parameter)]
    assert len(plain) == len(listed), "either named or plain parameters, not both"
    return _distinct(Candidate(f"parameter {index}", item) for index, item in enumerate(plain)), False


def _of_module(prefix: str, module: nn.Module) -> list[Candidate]:
    norms = {
        id(parameter) for inner in module.modules() if _is_norm(inner) for parameter in inner.parameters(recurse=False)
    }
    return [
        Candidate(prefix + name, parameter, id(parameter) in norms) for name, parameter in module.named_parameters()
    ]


def _is_norm(module: nn.Module) -> bool:
    """Recognise LayerNorm, RMSNorm, GroupNorm, BatchNorm1d and their like in other libraries by type name."""
    names = (kind.__name__ for kind in type(module).__mro__)
    return any(name.rstrip("123d").endswith("Norm") for name in names)


def _distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    return list({id(found.parameter): found for found in reversed(list(candidates))}.values())[::-1]


def matches(pattern: str, name: str) -> bool:
    """Match a dotted name against a glob; `*.bias` also matches a bare `bias`."""
    return fnmatchcase(name, pattern) or fnmatchcase(f".{name}", pattern)


def group_parameters(params: Parameters, rules: Rules) -> list[Group]:
    """Put every parameter that requires a gradient into exactly one group."""
    candidates, named = list_candidates(params)
    if not named:
        _refuse_patterns(rules)
    trained = [found for found in candidates if found.parameter.requires_grad]
    if not trained:
        raise ConfigError(
            f"optim: none of the {len(candidates)} parameters requires a gradient, so there is nothing to train"
        )
    _check_patterns(candidates, rules)
    grouped: dict[tuple[str, float, float], list[tuple[str, nn.Parameter]]] = {}
    for found in trained:
        grouped.setdefault(_treatment(found, rules), []).append((found.name, found.parameter))
    return [Group(*treatment, tuple(members)) for treatment, members in grouped.items()]


def _treatment(found: Candidate, rules: Rules) -> tuple[str, float, float]:
    """Decide the group name, learning rate and weight decay of one parameter."""
    group = _first_match(found.name, rules.groups)
    attached = _attached_options(found)
    lr, weight_decay = attached.get("lr", rules.lr), attached.get("weight_decay", rules.weight_decay)
    if group is not None:
        lr *= group.lr_scale
        weight_decay = weight_decay if group.weight_decay is None else group.weight_decay
    label = group.pattern if group is not None else "default"
    if "lr" in attached:
        label += f", lr {attached['lr']:g}"
    if is_undecayed(found, rules.no_decay):
        return f"{label}, no decay", lr, 0.0
    if attached.get("weight_decay") == weight_decay != rules.weight_decay:
        label += f", weight decay {weight_decay:g}"
    return label, lr, weight_decay


def is_undecayed(found: Candidate, no_decay: Sequence[str]) -> bool:
    """Say whether a parameter never decays: it is a norm, its name is listed, or its tensor says so."""
    silent = getattr(found.parameter, "_no_weight_decay", False) or _attached_options(found).get("weight_decay") == 0.0
    return bool(silent) or found.is_norm or any(matches(pattern, found.name) for pattern in no_decay)


def _attached_options(found: Candidate) -> dict[str, float]:
    options: Mapping[str, Any] = getattr(found.parameter, "_optim", None) or {}
    for name in options:
        if name not in _TENSOR_OPTIONS:
            raise ConfigError(
                f"{found.name}: its tensor has _optim[{name!r}], expected only "
                f"{' and '.join(_TENSOR_OPTIONS)}{nearest(name, _TENSOR_OPTIONS)}"
            )
    return {name: float(value) for name, value in options.items() if value is not None}


def _first_match(name: str, groups: Iterable[ParameterGroup]) -> ParameterGroup | None:
    return next((group for group in groups if matches(group.pattern, name)), None)


def _refuse_patterns(rules: Rules) -> None:
    patterns = [group.pattern for group in rules.groups]
    patterns += [pattern for pattern in rules.no_decay if pattern not in NO_DECAY]
    if patterns:
        raise ConfigError(
            f"optim: the pattern {patterns[0]!r} needs parameters with names, found plain ones; "
            "pass the module itself or its named_parameters() to build_optimizer"
        )


def _check_patterns(candidates: Sequence[Candidate], rules: Rules) -> None:
    """Refuse a pattern that would change nothing."""
    for pattern in rules.no_decay:
        if pattern not in NO_DECAY and not any(matches(pattern, found.name) for found in candidates):
            raise ConfigError(_unmatched("optim.no_decay", pattern, candidates))
    trained = [found for found in candidates if found.parameter.requires_grad]
    used = {id(_first_match(found.name, rules.groups)) for found in trained}
    for group in rules.groups:
        members = [found for found in candidates if matches(group.pattern, found.name)]
        if not members:
            raise ConfigError(_unmatched("optim.groups", group.pattern, candidates))
        if not any(found.parameter.requires_grad for found in members):
            raise ConfigError(f"optim.groups: {group.pattern!r} matches only frozen parameters; remove the group")
        if id(group) not in used:
            raise ConfigError(
                f"optim.groups: everything that {group.pattern!r} matches already belongs to an earlier group; "
                "put the narrower pattern first"
            )
        if group.weight_decay and all(is_undecayed(found, rules.no_decay) for found in members):
            raise ConfigError(
                f"optim.groups: weight_decay {group.weight_decay:g} has no effect on {group.pattern!r}, which matches "
                "only norms, biases and others that never decay; remove it"
            )


def _unmatched(where: str, pattern: str, candidates: Sequence[Candidate]) -> str:
    names = [found.name for found in candidates]
    tops = list(dict.fromkeys(name.split(".")[0] for name in names))
    folders = {
        ".".join(parts[:depth]) + ".*" for name in names if (parts := name.split(".")) for depth in range(1, len(parts))
    }
    hint = nearest(pattern, [*sorted(folders), *names]) or f"; their names start with {', '.join(map(repr, tops[:5]))}"
    return f"{where}: {pattern!r} matches none of the {len(names)} parameters{hint}"
