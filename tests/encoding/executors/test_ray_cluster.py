"""What is asked of a Ray cluster follows from what its nodes have; none is needed to find out."""

import sys

import pytest

from solfa.encoding.executors.ray_cluster import (
    Share,
    choose_encoders,
    choose_share,
    connect,
    import_ray,
    unfit_nodes,
)
from solfa.encoding.executors.ray_encoder import look_around, versions
from solfa.errors import ConfigError

CPUS = [{"CPU": 16.0}, {"CPU": 7.0}]
GPUS = [{"CPU": 8.0}, {"CPU": 32.0, "GPU": 8.0}, {"CPU": 64.0, "GPU": 4.0}]


@pytest.mark.parametrize(
    ("device", "cpus", "gpus", "nodes", "share"),
    [
        ("auto", None, None, CPUS, Share(1, 0)),
        ("auto", None, None, GPUS, Share(4, 1)),
        ("cuda", None, 0.5, GPUS, Share(2, 0.5)),
        ("cpu", None, None, GPUS, Share(1, 0)),
        ("auto", 0.5, None, CPUS, Share(0.5, 0)),
        ("cuda", None, None, [], Share(1, 1)),
    ],
)
def test_an_encoder_takes_a_core_or_a_gpu_with_its_part_of_the_cores(device, cpus, gpus, nodes, share):
    assert choose_share(device, cpus, gpus, nodes) == share


@pytest.mark.parametrize(
    ("device", "cpus", "gpus", "named"),
    [
        ("mps", None, None, "device"),
        ("cuda:1", None, None, "device"),
        ("auto", None, 2.0, "encoder_gpus"),
        ("cpu", None, 1.0, "encoder_gpus"),
        ("cuda", None, 0.0, "encoder_gpus"),
        ("auto", 0.0, None, "encoder_cpus"),
        ("auto", 1.5, None, "encoder_cpus"),
    ],
)
def test_shares_that_cannot_be_are_refused_by_name(device, cpus, gpus, named):
    with pytest.raises(ConfigError, match=f"`{named}"):
        choose_share(device, cpus, gpus, GPUS)


def test_there_are_as_many_encoders_as_there_is_room_for_on_whole_nodes():
    assert choose_encoders(Share(2, 0), None, None, CPUS).count == 8 + 3
    on_gpus = choose_encoders(Share(4, 1), None, None, GPUS)
    assert (on_gpus.count, on_gpus.num_workers, on_gpus.device_of(5)) == (8 + 4, 4, "cuda:0")
    assert choose_encoders(Share(2, 0.5), None, None, GPUS).count == 16 + 8
    assert choose_encoders(Share(0.1, 0), None, None, [{"CPU": 1.0}]).count == 10, "in spite of rounding"


def test_without_room_only_who_says_how_many_waits_for_nodes():
    with pytest.raises(ConfigError, match=r"room.*`num_encoders`"):
        choose_encoders(Share(32, 0), None, None, CPUS)
    assert choose_encoders(Share(1, 1), 40, None, []).count == 40


@pytest.mark.parametrize("address", ["ray://node:10001", "http://node:8265", "node", "node:"])
def test_addresses_of_something_else_are_refused(address, monkeypatch):
    class NotConnected:
        @staticmethod
        def is_initialized() -> bool:
            return False

    with pytest.raises(ConfigError, match=r"`ray_address`: .*HOST:PORT"):
        connect(NotConnected, address)
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ConfigError, match=r"RAY_ADDRESS: .*HOST:PORT"):
        connect(NotConnected, None)
    with pytest.raises(ConfigError, match="nobody answers"):
        connect(NotConnected, "127.0.0.1:1")


def test_without_ray_a_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"solfa\[ray\]"):
        import_ray()


def test_a_node_says_which_versions_it_has_and_what_it_does_not_see(tmp_path):
    assert look_around(versions(), [str(tmp_path)])["faults"] == []
    faults = look_around({**versions(), "torch": "1.0"}, [str(tmp_path), str(tmp_path / "gone")])["faults"]
    assert len(faults) == 2
    assert "torch" in faults[0] and "not 1.0" in faults[0]
    assert "gone" in faults[1]


def test_bad_nodes_are_named_but_not_all_of_a_thousand():
    sentence = str(unfit_nodes([f"node{index} does not see music.solfa" for index in range(1000)], 1200))
    assert "1000 of 1200" in sentence and "node0 does" in sentence and "node7" not in sentence
