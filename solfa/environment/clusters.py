"""Clusters: what a team's file says about one, and which one this machine belongs to."""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from typing import Any

from pydantic import Field, field_validator

from solfa.config import Config

DEFAULT, DARWIN, SLURM = "default", "darwin", "slurm"
"""Names that apply to machines that no pattern lists: any machine, a Mac, any Slurm cluster."""


class ClusterConfig(Config):
    """Where a team works on one cluster. Paths may contain `~`, `{user}` and variables, which are filled in on use."""

    dora_dir: str | None = None
    """Where experiments are kept; None means the user's data directory."""
    reference_dir: str | None = None
    """What `//reference` stands for."""
    partitions: Mapping[str, str] = Field(default_factory=dict)
    """Slurm partitions by kind, such as `global` and `team`; separate several names with commas."""
    slurm_exclude: str | None = None
    """Nodes that jobs avoid, in Slurm's notation."""
    dataset_mappers: Mapping[str, str] = Field(default_factory=dict)
    """Regular expression to replacement: where to find another cluster's datasets on this one."""
    hosts: tuple[str, ...] = ()
    """Patterns of host names that identify this cluster, such as `login*.example.org`."""

    @field_validator("hosts", mode="before")
    @classmethod
    def _accept_one_host(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("slurm_exclude", mode="before")
    @classmethod
    def _join_nodes(cls, value: Any) -> Any:
        return _joined(value)

    @field_validator("partitions", mode="before")
    @classmethod
    def _join_partitions(cls, value: Any) -> Any:
        return {kind: _joined(names) for kind, names in value.items()} if isinstance(value, Mapping) else value

    @field_validator("dataset_mappers")
    @classmethod
    def _compile_mappers(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for pattern, replacement in value.items():
            try:
                re.compile(pattern).sub(replacement, "")
            except (re.error, IndexError) as fault:
                raise ValueError(
                    f"expected a regular expression and its replacement, found {pattern!r}: {replacement!r} ({fault})"
                ) from None
        return value


def _joined(value: Any) -> Any:
    is_list = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    return ",".join(value) if is_list else value


def detect_cluster(
    environ: Mapping[str, str],
    system: str,
    hostname: str,
    rules: Mapping[str, Sequence[str]],
    *,
    has_sbatch: bool = False,
) -> str:
    """Find which of the clusters in `rules` (name to patterns of host names) this machine belongs to.

    In this order: a pattern that matches the host; under Slurm, the cluster with the name that Slurm uses, or else
    `slurm`; on a Mac, `darwin`; otherwise `default`. Slurm counts as present if its variables are set or, on a login
    node, if `sbatch` exists.
    """
    for name, patterns in rules.items():
        if any(fnmatch(hostname.lower(), pattern.lower()) for pattern in patterns):
            return name
    has_slurm = has_sbatch or any(environ.get(name) for name in ("SLURM_JOB_ID", "SLURM_CLUSTER_NAME", "SLURM_CONF"))
    if has_slurm and environ.get("SLURM_CLUSTER_NAME") in rules:
        return environ["SLURM_CLUSTER_NAME"]
    if has_slurm and SLURM in rules:
        return SLURM
    if system == "Darwin" and DARWIN in rules:
        return DARWIN
    return DEFAULT
