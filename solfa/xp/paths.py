"""Paths as configs write them: `//reference/...`, `//sig/SIG`, and datasets whose place depends on the cluster."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from solfa.config import nearest
from solfa.environment.teams import Environment
from solfa.errors import ConfigError
from solfa.xp.record import find_experiment

DATASET_KEY = "dset"
"""The config key that dataset paths are under."""
PREFIXES = ("reference", "sig", "demo", "pretrained")
"""What may follow `//`; the last two are left alone for other readers."""

_SPECIAL = re.compile(r"//(?P<prefix>[^/:]*)(?P<rest>.*)", re.DOTALL)
_TYPED = re.compile(r"//sig/[\w-]+")
_SIGNATURE = re.compile(r"/(?P<signature>[^/:]+)(?P<rest>.*)", re.DOTALL)


def resolve_path(text: str, environment: Environment) -> str:
    """Turn `//reference/x` and `//sig/SIG/x` into paths on this machine and expand a leading `~`.

    Whatever follows the signature is kept, be it a file name or codec options: `//sig/SIG:key=value`.

    >>> from pathlib import Path
    >>> from solfa.environment import load_environment
    >>> from solfa.xp import resolve_path
    >>> environment = load_environment({"SOLFA_REFERENCE_DIR": str(Path("audio").absolute()), "HOME": "/home/ada"})
    >>> Path(resolve_path("//reference/guitar.wav", environment)).is_file()
    True
    """
    special = _SPECIAL.fullmatch(text)
    if special is None:
        return _expand_home(text) if text.startswith("~") else text
    if special["prefix"] == "reference":
        return _resolve_reference(text, special["rest"], environment)
    if special["prefix"] == "sig":
        return _resolve_signature(text, special["rest"], environment)
    if special["prefix"] in PREFIXES or not (suggestion := nearest(special["prefix"], PREFIXES)) or Path(text).exists():
        return text
    raise ConfigError(f"{text}: expected //reference/... or //sig/SIG{suggestion}")


def with_whole_signatures(text: str, environment: Environment) -> str:
    """Replace the beginning of a signature after `//sig/` by all of it, so that it always means the same experiment.

    One that is unknown or ambiguous stays as it is: `resolve_path` says what is wrong with it.
    """

    def whole(found: re.Match[str]) -> str:
        try:
            return f"//sig/{find_experiment(environment.xps_dir, found[0]).name}"
        except ConfigError:
            return found[0]

    return _TYPED.sub(whole, text)


def map_dataset_path(path: str, environment: Environment) -> str:
    """Map a dataset path from another cluster to this one by applying the team's mappers in order."""
    for pattern, replacement in environment.dataset_mappers.items():
        path = re.sub(pattern, replacement, path)
    return path


def resolve_paths(values: Mapping[str, Any], environment: Environment) -> dict[str, Any]:
    """Resolve every text that starts with `//` or `~/`, at any depth; under `dset`, apply the team's mappers too.

    >>> from pathlib import Path
    >>> from solfa.environment import load_environment
    >>> from solfa.xp import resolve_paths
    >>> environment = load_environment({"SOLFA_REFERENCE_DIR": str(Path("audio").absolute()), "HOME": "/home/ada"})
    >>> resolved = resolve_paths({"dim": 16, "prompt": {"file": "//reference/guitar.wav"}}, environment)
    >>> resolved["dim"], Path(resolved["prompt"]["file"]).is_file()
    (16, True)
    """
    return {key: _resolve_value(value, environment, key, key == DATASET_KEY) for key, value in values.items()}


def _resolve_value(value: Any, environment: Environment, where: str, is_dataset: bool) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _resolve_value(inner, environment, f"{where}.{key}", is_dataset or key == DATASET_KEY)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_resolve_value(inner, environment, f"{where}.{at}", is_dataset) for at, inner in enumerate(value)]
    if not isinstance(value, str):
        return value
    try:
        if value.startswith("//"):  # now a path on this machine, so no mapper applies
            return resolve_path(value, environment)
        # `dset` also holds codec names and filter values; only texts with a slash are paths.
        if is_dataset and "/" in value:
            return map_dataset_path(resolve_path(value, environment), environment)
        if value.startswith("~/"):
            return resolve_path(value, environment)
    except ConfigError as fault:
        raise ConfigError(f"{where}: {fault}") from None
    return value


def _resolve_reference(text: str, rest: str, environment: Environment) -> str:
    folder = environment.reference_dir
    if folder is None:
        raise ConfigError(
            f"{text}: team {environment.team!r} has no reference folder on cluster {environment.cluster!r}; "
            f"set SOLFA_REFERENCE_DIR, or reference_dir in {environment.team_file}"
        )
    if not folder.is_dir():
        raise ConfigError(
            f"{text}: the reference folder {folder} does not exist; create it, or set SOLFA_REFERENCE_DIR"
        )
    return str(folder) + rest.rstrip("/")


def _resolve_signature(text: str, rest: str, environment: Environment) -> str:
    match = _SIGNATURE.fullmatch(rest)
    if match is None or match["signature"].startswith("."):
        raise ConfigError(f"{text}: expected an experiment's signature, as in //sig/0123abcd")
    folder = find_experiment(environment.xps_dir, f"//sig/{match['signature']}")
    return str(folder) + match["rest"].rstrip("/")


def _expand_home(text: str) -> str:
    try:
        return str(Path(text).expanduser())
    except RuntimeError:
        raise ConfigError(f"{text}: expected a path, but this machine does not know that user's home") from None
