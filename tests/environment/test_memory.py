"""The memory of a process is the least of what its surroundings allow."""

import resource
from pathlib import Path

import pytest

from solfa.environment.memory import cgroup_limits, device_memory, expect_memory, host_memory
from solfa.errors import ConfigError


def group(root: Path, path: str, name: str, text: str) -> None:
    place = root / path
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)


def test_limits_of_all_groups_above_a_process_count(tmp_path: Path) -> None:
    group(tmp_path, "job", "memory.max", "4000\n")
    group(tmp_path, "job/step", "memory.max", "max\n")
    assert cgroup_limits("0::/job/step\n", tmp_path) == [4000]


def test_the_older_kind_of_group_counts_too(tmp_path: Path) -> None:
    group(tmp_path, "memory/docker/1f", "memory.limit_in_bytes", "3000\n")
    group(tmp_path, "memory", "memory.limit_in_bytes", "9223372036854771712\n")
    own = "5:cpu,cpuacct:/docker/1f\n4:memory:/docker/1f\n0::/\n"
    assert min(cgroup_limits(own, tmp_path)) == 3000


def test_in_a_container_the_root_is_its_own(tmp_path: Path) -> None:
    group(tmp_path, "", "memory.max", "2000\n")
    assert cgroup_limits("0::/only/the/host/has/this\n", tmp_path) == [2000]


def test_a_limit_of_the_shell_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    there = host_memory()
    assert 2**20 < there == device_memory("cpu")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (12345, resource.RLIM_INFINITY))
    assert host_memory() == 12345


def test_what_fits_is_allowed_and_what_does_not_is_told_with_its_size() -> None:
    expect_memory(1 << 20, "clips", "ask for less")
    with pytest.raises(ConfigError, match=r"^clips: .*1,126 TB .*; ask for less$"):
        expect_memory(1 << 50, "clips", "ask for less")
