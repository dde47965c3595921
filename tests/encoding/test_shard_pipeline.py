"""Those who take shards of one dataset at the same time start at different ones, and what fails commits nothing."""

from itertools import zip_longest

import numpy as np
import pytest

import solfa
from solfa.encoding.encode_loop import EncodedBatch
from solfa.encoding.read_ahead import Decoded
from solfa.encoding.shard_claims import Claim, claim_shards
from solfa.encoding.shard_pipeline import (
    CLIPS_TOGETHER,
    SECONDS_TOGETHER,
    Behind,
    ClaimedClip,
    _together,
    encode_batch,
    encode_claims,
)
from solfa.environment.ranks import read_turn
from solfa.errors import StoreError
from solfa.store.layout import is_committed, read_info
from solfa.store.plan_file import ShardOfPlan
from solfa.store.planned_clip import PlannedClip
from solfa.store.shard_writer import Outcome
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


def test_an_encoder_that_is_first_leaves_the_others_most_of_a_short_job(tmp_path):
    for index in range(12):
        write_tone(tmp_path / f"audio/take{index:02d}.wav", 10, 1000)
    root, codec = tmp_path / "music.solfa", solfa.load_codec("mulaw:sample_rate=1000")
    solfa.encode(tmp_path / "audio", root, codec=codec)
    for commit in (root / "commit").iterdir():
        commit.unlink()
    info, taken, held = read_info(root), [], []

    def claims():
        for claim in claim_shards(root, info, 0, 2):
            taken.append(claim.shard.shard)
            yield claim

    def emit(progress):
        held.append(len(taken))

    encode_claims(root, info, codec, claims(), tmp_path / "audio", num_workers=0, made_by={}, emit=emit)
    assert taken == list(range(8))
    assert held[0] <= 3  # of how fast it is, it knows nothing before


def test_what_is_queued_behind_a_fault_is_not_committed(tmp_path):
    write_tone(tmp_path / "audio/take.wav", 12, 1000)
    root = tmp_path / "music.solfa"
    solfa.encode(tmp_path / "audio", root, codec=solfa.load_codec("mulaw:sample_rate=1000"), segment_seconds=4.0)
    (root / "commit/00000.json").unlink()
    info = read_info(root)
    (claim,) = claim_shards(root, info, 0, 1)
    good = [Outcome(clip, np.zeros((4000, 1), np.uint16), 4000) for clip in claim.clips]
    bad = Outcome(claim.clips[0], np.full((4000, 1), 60_000), 4000)
    with pytest.raises(StoreError, match="integer codes"), Behind(root, info, {}) as behind:
        behind.write(claim, [bad, *good])  # as many behind it as the shard has
    claim.lease.release()
    assert not is_committed(root, 0) and not list((root / ".tmp").iterdir())


def decoded(num_samples: int, claim: Claim | None = None, batch: int = 0) -> Decoded[ClaimedClip]:
    audio = np.random.default_rng(num_samples).uniform(-1.1, 1.1, (2, num_samples)).astype(np.float32)
    clip = PlannedClip(f"{num_samples}", "a", "a", num_samples=num_samples)
    return Decoded(ClaimedClip(claim, batch, True), clip, audio, None)


@pytest.mark.parametrize("name", ["mulaw:num_channels=2", "linear:bits=12,num_channels=2"])
def test_codecs_of_single_samples_take_clips_of_any_lengths_at_once(name):
    codec = solfa.load_codec(name)
    batch = [decoded(num_samples) for num_samples in (1, 3, 16, 17, 401, 1000)]
    broken = Decoded(batch[0].label, batch[0].clip, None, "broken")
    together = encode_batch(codec, [*batch[:3], broken, *batch[3:]], "cpu")
    assert together.pop(3).error == "broken"
    for one, outcome in zip(batch, together, strict=True):
        (alone,) = encode_batch(codec, [one], "cpu")
        assert outcome.clip is one.clip and outcome.num_samples == one.audio.shape[-1] == len(outcome.array)
        assert np.array_equal(outcome.array, alone.array)


def test_what_takes_no_time_is_passed_on_together_and_nothing_waits_for_another_shard():
    claims = [Claim(ShardOfPlan(shard, 0, shard, 1), [], [(0, 1)] * 100, None) for shard in range(2)]

    def batches(claim: Claim, seconds: float):
        return [EncodedBatch([decoded(1, claim, number)], [], 0.0, seconds) for number in range(100)]

    quick, slow = (batches(claim, seconds) for claim, seconds in zip(claims, (1e-6, SECONDS_TOGETHER), strict=True))
    passed = list(_together([*quick, *slow]))
    assert [len(some) for some in passed] == [CLIPS_TOGETHER, 100 - CLIPS_TOGETHER, *[1] * 100]
    assert [batch for some in passed for batch in some] == [*quick, *slow]
    quick[10] = quick[10]._replace(clips=[quick[10].clips[0]._replace(audio=None)])  # which may stop the run
    assert [len(some) for some in _together(quick)] == [11, CLIPS_TOGETHER, 89 - CLIPS_TOGETHER]
