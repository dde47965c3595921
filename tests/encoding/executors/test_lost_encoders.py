"""Three encoders lost over one thing end a run; any number lost over different things does not."""

import pytest

from solfa.encoding.executors.lost_encoders import MAX_LOST, LostEncoders
from solfa.errors import SolfaError


def test_nodes_that_come_and_go_end_nothing():
    lost = LostEncoders()
    for shard in range(1000):
        for _ in range(MAX_LOST - 1):
            lost.add("music.solfa", shard, "on node7")


def test_a_shard_that_no_encoder_survives_is_named_with_where_the_last_was_lost():
    lost = LostEncoders()
    lost.add("music.solfa", 12, "on node1")
    lost.add("music.solfa", 3, "on node2")
    lost.add("music.solfa", 12, "on node3")
    with pytest.raises(
        SolfaError, match=r"music.solfa: 3 encoders .*shard 00012, .*on node9 \(exit code -9\); .*same command"
    ):
        lost.add("music.solfa", 12, "on node9 (exit code -9)")


def test_encoders_that_never_get_to_work_end_a_run_unless_others_do():
    lost = LostEncoders()
    for _ in range(10):
        for _ in range(MAX_LOST - 1):
            lost.add("music.solfa", None, "on node1")
        lost.took_shard()
    with pytest.raises(SolfaError, match="before they had taken a shard"):
        for _ in range(MAX_LOST):
            lost.add("music.solfa", None, "on node1")
