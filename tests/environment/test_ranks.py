"""Launchers say who we are in their own variables."""

import pytest

from solfa.environment.ranks import Rank, read_rank, usable_cores
from solfa.errors import ConfigError


def test_without_a_launcher_a_process_is_alone():
    assert read_rank({}) == Rank(0, 1, 0, 1)
    assert read_rank({"RANK": "3"}) == Rank(), "half of the variables is not a launcher"


def test_torchrun_and_slurm_are_understood():
    torchrun = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}
    assert read_rank(torchrun) == Rank(5, 8, 1, 4)
    slurm = {"SLURM_PROCID": "2", "SLURM_NTASKS": "3", "SLURM_LOCALID": "2"}
    assert read_rank(slurm) == Rank(2, 3, 2, 1)
    assert read_rank({**slurm, **torchrun}) == Rank(5, 8, 1, 4), "torchrun inside a Slurm job counts"


@pytest.mark.parametrize("values", [{"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "one", "WORLD_SIZE": "2"}])
def test_impossible_ranks_are_refused(values):
    with pytest.raises(ConfigError, match="RANK"):
        read_rank(values)


def test_there_is_a_core_to_use():
    assert usable_cores() >= 1
