"""Launchers say who we are in their own variables. Those of Slurm here are what Slurm 22.05 set in real jobs."""

import os

import pytest

from solfa.environment import ranks
from solfa.environment.ranks import (
    Rank,
    Turn,
    among_devices,
    own_cores,
    read_rank,
    read_turn,
    tasks_per_node,
    usable_cores,
)
from solfa.errors import ConfigError

SRUN = {  # the last task of `srun -N2 -n4 --cpus-per-task=2`
    "SLURM_JOB_ID": "7",
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
    "SLURM_TASKS_PER_NODE": "2(x2)",
    "SLURM_CPUS_PER_TASK": "2",
    "SLURM_CPUS_ON_NODE": "4",
}
SCRIPT = {  # the script of `sbatch -N2 -n3`, outside of any srun
    "SLURM_JOB_ID": "6",
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "3",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_TASKS_PER_NODE": "2,1",
    "SLURM_CPUS_ON_NODE": "2",
}
ARRAY = {  # the second task of `sbatch --array=3-9:3`
    "SLURM_ARRAY_JOB_ID": "3",
    "SLURM_ARRAY_TASK_COUNT": "3",
    "SLURM_ARRAY_TASK_ID": "6",
    "SLURM_ARRAY_TASK_MAX": "9",
    "SLURM_ARRAY_TASK_MIN": "3",
    "SLURM_ARRAY_TASK_STEP": "3",
    "SLURM_CPUS_ON_NODE": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "0",
    "SLURM_TASKS_PER_NODE": "1",
}
TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4"}


@pytest.fixture
def many_cores(monkeypatch):
    """A machine on which nobody bound this process to fewer cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(128)), raising=False)


def test_without_a_launcher_a_process_is_alone():
    assert read_rank({}) == Rank(0, 1, 0, 1)
    assert read_rank({"RANK": "3"}) == Rank(), "half of the variables is not a launcher"


def test_torchrun_and_slurm_are_understood():
    assert read_rank(TORCHRUN) == Rank(5, 8, 1, 4)
    assert read_rank(SRUN) == Rank(3, 4, 1, 2)
    assert read_rank({**SRUN, **TORCHRUN}) == Rank(5, 8, 1, 4), "torchrun inside a Slurm job counts"


def test_nodes_with_different_numbers_of_tasks_know_their_own():
    uneven = {**SRUN, "SLURM_STEP_TASKS_PER_NODE": "3,1"}
    assert read_rank({**uneven, "SLURM_NODEID": "0"}).local_world_size == 3
    assert read_rank({**uneven, "SLURM_LOCALID": "0"}).local_world_size == 1


def test_the_script_of_a_job_is_alone_however_many_tasks_the_job_has():
    assert read_rank(SCRIPT) == Rank()


@pytest.mark.parametrize(
    ("text", "counts"), [("", []), ("1", [1]), ("2(x3),1", [2, 2, 2, 1]), ("16,8(x2)", [16, 8, 8])]
)
def test_numbers_per_node_are_spelled_out(text, counts):
    assert tasks_per_node(text) == counts


@pytest.mark.parametrize("values", [{"RANK": "2", "WORLD_SIZE": "2"}, {"RANK": "one", "WORLD_SIZE": "2"}])
def test_impossible_ranks_are_refused(values):
    with pytest.raises(ConfigError, match="RANK"):
        read_rank(values)


@pytest.mark.parametrize(
    "values", [{"SLURM_STEP_TASKS_PER_NODE": "two"}, {"SLURM_NODEID": "n1"}, {"SLURM_PROCID": "4"}]
)
def test_what_slurm_cannot_have_said_is_refused_by_name(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        read_rank({**SRUN, **values})


def test_tasks_of_an_array_have_different_turns_and_so_have_the_ranks_of_each():
    tasks = [{**ARRAY, "SLURM_ARRAY_TASK_ID": number} for number in ("3", "6", "9")]
    assert [read_turn(task) for task in tasks] == [Turn(0, 3), Turn(1, 3), Turn(2, 3)]
    assert read_rank(tasks[2]) == Rank(), "they need not run at the same time, so they are no ranks"
    both = [{**SRUN, **task, "SLURM_PROCID": rank} for task in tasks for rank in "0123"]
    assert [read_turn(each) for each in both] == [Turn(index, 12) for index in range(12)]


def test_an_array_with_gaps_still_spreads_its_tasks():
    gaps = {"SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "7", "SLURM_ARRAY_TASK_STEP": "1"}
    turns = [read_turn({**gaps, "SLURM_ARRAY_TASK_ID": number}) for number in ("1", "5", "7")]
    assert turns == [Turn(0, 7), Turn(4, 7), Turn(6, 7)]
    with pytest.raises(ConfigError, match="SLURM_ARRAY_TASK_ID=8"):
        read_turn({**gaps, "SLURM_ARRAY_TASK_ID": "8"})


def test_without_an_array_the_turn_is_the_rank():
    assert (read_turn({}), read_turn(TORCHRUN), read_turn(SRUN)) == (Turn(0, 1), Turn(5, 8), Turn(3, 4))


def test_there_is_a_core_to_use():
    assert usable_cores() >= 1
    assert own_cores({**TORCHRUN, "LOCAL_WORLD_SIZE": "1000"}) == 1


@pytest.mark.usefixtures("many_cores")
def test_where_tasks_are_not_bound_to_cores_each_has_what_slurm_gave_it():
    unasked = {name: value for name, value in SRUN.items() if name != "SLURM_CPUS_PER_TASK"}
    assert usable_cores({}) == 128
    assert own_cores(SRUN) == 2
    assert own_cores({**unasked, "SLURM_CPUS_ON_NODE": "6"}) == 3, "two tasks on this node"
    assert own_cores(SCRIPT) == 2, "a script has the cores of its job on its node"
    assert own_cores(TORCHRUN) == 32
    inside = {**SCRIPT, "SLURM_CPUS_ON_NODE": "64"}
    assert own_cores({**inside, **TORCHRUN}) == 16, "torchrun's processes share what the script has"


def test_cores_that_a_task_is_bound_to_are_not_divided_again(monkeypatch):
    monkeypatch.setattr(ranks.os, "sched_getaffinity", lambda pid: {2, 3}, raising=False)
    assert own_cores(SRUN) == 2
    unasked = {name: value for name, value in SRUN.items() if name != "SLURM_CPUS_PER_TASK"}
    assert own_cores({**unasked, "SLURM_CPUS_ON_NODE": "4"}) == 2
    assert own_cores({**SRUN, "SLURM_CPUS_PER_TASK": "64"}) == 2


def test_a_process_with_a_device_of_its_own_takes_that():
    second = read_rank(SRUN)
    assert among_devices(second, 1) == Rank(3, 4, 0, 1)
    assert among_devices(second, 2) == second
