"""Those who take shards of one dataset at the same time start at different ones, and meet only in the end."""

from itertools import zip_longest

import solfa
from solfa.encoding.shard_pipeline import claim_shards
from solfa.environment.ranks import read_turn
from solfa.store.layout import read_info
from tests.conftest import write_tone

ARRAY = {"SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "5", "SLURM_ARRAY_TASK_STEP": "1", "SLURM_PROCID": "0"}


def test_tasks_of_an_array_that_are_equally_fast_take_equally_many_shards(tmp_path):
    for index in range(12):
        write_tone(tmp_path / f"audio/take{index:02d}.wav", 120, 1000)
    root = tmp_path / "music.solfa"
    solfa.encode(tmp_path / "audio", root, codec=solfa.load_codec("mulaw:sample_rate=1000"))
    for commit in (root / "commit").iterdir():
        commit.unlink()
    tasks = [read_turn({**ARRAY, "SLURM_ARRAY_TASK_ID": number}) for number in "345"]
    claims = [claim_shards(root, read_info(root), turn.number, turn.total) for turn in tasks]
    rounds = list(zip_longest(*claims))  # one shard each, and again
    taken = [[claim.shard.shard for claim in column if claim is not None] for column in zip(*rounds, strict=True)]
    for claim in (claim for row in rounds for claim in row if claim is not None):
        claim.lease.release()
    assert taken == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
