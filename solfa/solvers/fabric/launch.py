"""Tell Fabric that the processes of a run were launched and numbered by someone else."""

from collections.abc import Mapping

from lightning_fabric.plugins.environments.cluster_environment import ClusterEnvironment

from solfa.environment.ranks import Rank
from solfa.errors import ConfigError


class Launched(ClusterEnvironment):
    """Processes that someone else started and numbered: Dora, torchrun, Slurm, or nobody."""

    def __init__(self, rank: Rank, environment: Mapping[str, str]) -> None:
        self._rank, self._environment = rank, environment

    @property
    def creates_processes_externally(self) -> bool:
        return True

    @property
    def main_address(self) -> str:
        return self._environment.get("MASTER_ADDR", "127.0.0.1")

    @property
    def main_port(self) -> int:
        port = self._environment.get("MASTER_PORT", "29500")
        if not port.isdigit():
            raise ConfigError(f"MASTER_PORT: expected a number, found {port!r}")
        return int(port)

    @staticmethod
    def detect() -> bool:
        return True

    def world_size(self) -> int:
        return self._rank.world_size

    def set_world_size(self, size: int) -> None:
        assert size == self._rank.world_size

    def global_rank(self) -> int:
        return self._rank.rank

    def set_global_rank(self, rank: int) -> None:
        assert rank == self._rank.rank

    def local_rank(self) -> int:
        return self._rank.local_rank

    def node_rank(self) -> int:
        return self._rank.rank // max(1, self._rank.local_world_size)
