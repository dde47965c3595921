"""One encoder per core or device, unless the user says otherwise."""

import pytest

from solfa.encoding.placement import Encoders
from solfa.environment.ranks import Rank, Turn, read_rank, usable_cores
from solfa.errors import ConfigError

SRUN = {  # the second task of `srun -N2 -n4 --gpus-per-task=1` on its node
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_CPUS_PER_TASK": "1",
}


def test_on_cpus_there_is_one_encoder_per_core_and_ranks_share_them():
    assert Encoders.choose("cpu", None, None, {}) == Encoders("cpu", usable_cores({}), 1)
    crowded = {"RANK": "0", "WORLD_SIZE": "1000", "LOCAL_WORLD_SIZE": "1000"}
    assert Encoders.choose("cpu", None, None, crowded).count == 1


def test_a_task_of_slurm_starts_as_many_encoders_as_it_has_cores():
    chosen = Encoders.choose("cpu", None, None, SRUN)
    assert (chosen.count, chosen.turn) == (1, Turn(3, 4))


def test_what_the_user_says_counts():
    chosen = Encoders.choose("cpu", 3, 0, {})
    assert (chosen.count, chosen.num_workers) == (3, 0)


def test_every_encoder_of_a_rank_has_a_device_of_its_own():
    ranks = [Encoders("cuda", 2, 4, Rank(rank, 4, rank, 4), num_devices=8) for rank in range(4)]
    devices = [encoders.device_of(index) for encoders in ranks for index in range(2)]
    assert devices == [f"cuda:{index}" for index in range(8)]
    assert Encoders("cuda:3", 1, 4).device_of(0) == "cuda:3"


def test_a_task_that_sees_one_device_takes_it_and_more_encoders_than_devices_share_them():
    assert Encoders("cuda", 1, 4, read_rank(SRUN), num_devices=1).device_of(0) == "cuda:0"
    crowded = Encoders("cuda", 4, 4, num_devices=2)
    assert [crowded.device_of(index) for index in range(4)] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1"]


@pytest.mark.parametrize(
    ("device", "count", "num_workers", "sentence"),
    [
        ("tpu", None, None, "`device=tpu`: .*expected one of cpu"),
        ("cpu", 0, None, "`num_encoders`: expected at least 1, found 0"),
        ("cpu", None, -1, "`num_workers`: expected 0 or more, found -1"),
    ],
)
def test_what_cannot_be_is_refused(device, count, num_workers, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Encoders.choose(device, count, num_workers, {})
