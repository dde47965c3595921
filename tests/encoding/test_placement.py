"""One encoder per core or device, unless the user says otherwise."""

import pytest

from solfa.encoding.placement import Encoders
from solfa.environment.ranks import Rank, usable_cores
from solfa.errors import ConfigError


def test_on_cpus_there_is_one_encoder_per_core_and_ranks_share_them():
    assert Encoders.choose("cpu", None, None, Rank()) == Encoders("cpu", usable_cores(), 1, Rank())
    crowded = Rank(0, 1000, 0, 1000)
    assert Encoders.choose("cpu", None, None, crowded).count == 1


def test_what_the_user_says_counts():
    chosen = Encoders.choose("cpu", 3, 0, Rank())
    assert (chosen.count, chosen.num_workers) == (3, 0)


def test_every_encoder_of_a_rank_has_a_device_of_its_own():
    encoders = Encoders("cuda", 2, 4, Rank(4, 8, 4, 8))
    assert [encoders.device_of(index) for index in range(2)] == ["cuda:4", "cuda:5"]
    assert Encoders("cuda:3", 1, 4, Rank()).device_of(0) == "cuda:3"


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
        Encoders.choose(device, count, num_workers, Rank())
