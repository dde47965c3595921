"""Choose who runs the encoder processes of a run, and how many there are."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, get_args

from solfa.encoding.executors.local_executor import LocalExecutor
from solfa.encoding.executors.protocol import Executor
from solfa.encoding.placement import Encoders
from solfa.errors import ConfigError

ExecutorName = Literal["local", "ray"]


class Workforce(NamedTuple):
    """The encoders of a run, and who runs them."""

    encoders: Encoders
    executor: Executor
    connection: AbstractContextManager[object]
    """To be left when the run is over."""


def choose_workforce(
    executor: str,
    device: str,
    num_encoders: int | None,
    num_workers: int | None,
    *,
    ray_address: str | None,
    encoder_cpus: float | None,
    encoder_gpus: float | None,
) -> Workforce:
    """Find out what there is, here or in a cluster; a setting that would be ignored is refused."""
    if executor not in get_args(ExecutorName):
        raise ConfigError(f"`executor`: expected local or ray, found {executor!r}")
    if executor == "ray":
        from solfa.encoding.executors.ray_executor import RayExecutor

        on_ray = RayExecutor(
            device, num_encoders, num_workers, address=ray_address, cpus=encoder_cpus, gpus=encoder_gpus
        )
        return Workforce(on_ray.encoders, on_ray, on_ray)
    given = {"ray_address": ray_address, "encoder_cpus": encoder_cpus, "encoder_gpus": encoder_gpus}
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"`{name}`: only used with `executor=ray`; leave it out, or add that")
    encoders = Encoders.choose(device, num_encoders, num_workers, os.environ)
    return Workforce(encoders, LocalExecutor(), nullcontext())
