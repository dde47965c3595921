"""Several sources as one: shares, repetitions, ids, and that a resume is exact."""

import json
from collections import Counter

import numpy as np
import pytest

from solfa.data.batching.epoch_plan import draw_order
from solfa.data.batching.loader import make_loader
from solfa.data.batching.modes import Crop, Pack, Pad, plan_epoch
from solfa.data.sources.clip_source import DrawWeights, MemoryClip, MemoryClips
from solfa.data.sources.mixture import Mixture, MixturePart
from solfa.data.stable_random import Shuffler
from solfa.errors import ConfigError

MODES = [
    Crop(num_frames=12, batch_size=5),
    Pad(batch_size=4),
    Pad(max_frames_per_batch=200),
    Pack(num_frames=30, batch_size=4),
]


def clips_of(count: int, name: str = "clip", num_frames: int = 30) -> MemoryClips:
    rng = np.random.default_rng(count)
    return MemoryClips(
        [MemoryClip(f"{name}{i}.wav", rng.integers(0, 99, (num_frames, 2)).astype(np.uint16)) for i in range(count)]
    )


BIG, SMALL = clips_of(90), clips_of(10)


def drawn(mixture: Mixture, epoch: int = 0, seed: int = 0) -> Counter[str]:
    loader = make_loader(mixture, Crop(num_frames=5, batch_size=8), seed=seed)
    for _ in range(epoch):
        list(loader)
    return Counter(clip_id for batch in loader for clip_id in batch.ids)


def test_one_unweighted_source_gives_the_batches_of_the_source_itself() -> None:
    for part in (MixturePart(BIG), MixturePart(BIG, 3.0)):
        mixture = Mixture([part])
        assert (mixture.digest, len(mixture), mixture.weights) == (BIG.digest, 90, None)
        for mode in MODES:
            for left, right in zip(make_loader(mixture, mode), make_loader(BIG, mode), strict=True):
                assert left.ids == right.ids and (left.arrays == right.arrays).all()


def test_without_weights_every_clip_of_every_source_comes_once_under_an_id_of_its_own() -> None:
    found = drawn(Mixture([MixturePart(BIG), MixturePart(SMALL)]))
    assert found == Counter([f"0:clip{i}.wav" for i in range(90)] + [f"1:clip{i}.wav" for i in range(10)])


def test_a_mixed_clip_is_that_of_its_source() -> None:
    mixture = Mixture([MixturePart(BIG), MixturePart(SMALL)])
    assert (mixture[89].id, mixture[90].id) == ("0:clip89.wav", "1:clip0.wav")
    assert (mixture[99].array == SMALL[9].array).all() and len(mixture) == 100
    with pytest.raises(IndexError):
        mixture[100]


@pytest.mark.parametrize("weights", [(1.0, 1.0), (0.2, 0.8), (3.0, 1.0), (1e-3, 1.0)])
def test_the_share_of_each_source_is_its_weight_and_each_clip_is_drawn_evenly(weights: tuple[float, float]) -> None:
    mixture = Mixture([MixturePart(BIG, weights[0]), MixturePart(SMALL, weights[1])])
    for epoch in range(3):
        counts = drawn(mixture, epoch)
        assert sum(counts.values()) == 100
        for number, (source, weight) in enumerate(zip((BIG, SMALL), weights, strict=True)):
            share = 100 * weight / sum(weights)
            of_each = [counts[f"{number}:clip{i}.wav"] for i in range(len(source))]
            assert abs(sum(of_each) - share) < 1 + 1e-9
            assert all(abs(count - share / len(source)) < 1 + 1e-9 for count in of_each)


def test_clip_weights_say_how_often_a_clip_comes_within_its_source() -> None:
    clip_weights = np.array([0.0, 1.0, 3.0, 1.0, 0, 0, 0, 0, 0, 0])
    counts = drawn(Mixture([MixturePart(SMALL, clip_weights=clip_weights)]))
    assert counts == {"clip1.wav": 2, "clip2.wav": 6, "clip3.wav": 2}
    both = drawn(Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 1.0, clip_weights)]))
    assert [both[f"1:clip{i}.wav"] for i in range(4)] == [0, 10, 30, 10]
    # Without weights of their own, sources keep their sizes.
    sizes = drawn(Mixture([MixturePart(BIG), MixturePart(SMALL, clip_weights=clip_weights)]))
    assert sum(count for name, count in sizes.items() if name.startswith("1:")) == 10


def test_over_many_epochs_every_clip_of_a_thinned_source_is_seen_in_many_combinations() -> None:
    weights = DrawWeights(np.ones(20) * 0.5, np.zeros(20, np.int64))
    weights = DrawWeights(np.concatenate([weights.clips, [10.0]]), np.concatenate([weights.parts, [1]]))
    epochs = [frozenset(draw_order(weights, Shuffler("d", 0, epoch)).tolist()) for epoch in range(60)]
    assert len(set(epochs)) > 50
    times = Counter(clip for epoch in epochs for clip in epoch)
    assert all(15 < times[clip] < 50 for clip in range(20))


def test_a_weighted_epoch_depends_on_digest_seed_and_epoch_only() -> None:
    mixture = Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 1.0)])
    mode = Crop(num_frames=5, batch_size=100)

    def order(digest: str, seed: int, epoch: int) -> list[int]:
        plan = plan_epoch(mode, mixture.num_frames, digest, seed, epoch, mixture.weights)
        return [*plan.batch(0).clips.tolist(), *plan.batch(0).starts.tolist()]

    first = order("d", 0, 0)
    assert first == order("d", 0, 0)
    assert all(first != other for other in (order("e", 0, 0), order("d", 1, 0), order("d", 0, 1)))


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("stop", [1, 4, 9])
def test_a_resumed_weighted_epoch_goes_on_with_the_same_batches_for_any_number_of_ranks(mode, stop: int) -> None:  # type: ignore[no-untyped-def]
    mixture = Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 2.0)])
    whole = [(batch.ids, batch.starts.tolist(), batch.arrays.tolist()) for batch in make_loader(mixture, mode, seed=3)]
    loader = make_loader(mixture, mode, seed=3)
    for _, _batch in zip(range(stop), loader, strict=False):
        state = json.loads(json.dumps(loader.state_dict()))
    ranks = [
        make_loader(Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 2.0)]), mode, seed=3, rank=r, world_size=2)
        for r in (0, 1)
    ]
    for rank in ranks:
        rank.load_state_dict(state)
    rest = [
        (a.ids + b.ids, a.starts.tolist() + b.starts.tolist(), a.arrays.tolist() + b.arrays.tolist())
        for a, b in zip(*ranks, strict=True)
    ]
    same = rest == whole[stop:]
    assert same, "the batches after the resume differ"


def test_a_clip_that_comes_often_in_an_epoch_is_cropped_elsewhere_each_time() -> None:
    long = clips_of(4, "long", num_frames=10_000)
    mixture = Mixture([MixturePart(BIG, 1.0), MixturePart(long, 9.0)])
    loader = make_loader(mixture, Crop(num_frames=10, batch_size=94))
    batch = next(iter(loader))
    starts: dict[str, list[int]] = {}
    for clip_id, start in zip(batch.ids, batch.starts.tolist(), strict=True):
        starts.setdefault(clip_id, []).append(start)
    repeated = [places for clip_id, places in starts.items() if clip_id.startswith("1:")]
    assert [len(places) >= 21 for places in repeated] == [True] * 4
    assert all(len(set(places)) == len(places) for places in repeated)
    assert all(0 <= place <= 9990 for places in repeated for place in places)
    assert 4000 < np.mean([place for places in repeated for place in places]) < 6000


def test_without_random_starts_every_crop_begins_with_its_clip() -> None:
    mixture = Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 9.0)])
    loader = make_loader(mixture, Crop(num_frames=10, batch_size=10, random_start=False))
    assert all((batch.starts == 0).all() for batch in loader)


def test_other_weights_are_another_digest_so_that_a_state_cannot_be_taken_for_it() -> None:
    ones = np.ones(10)
    mixtures = [
        Mixture([MixturePart(BIG), MixturePart(SMALL)]),
        Mixture([MixturePart(SMALL), MixturePart(BIG)]),
        Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 1.0)]),
        Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 2.0)]),
        Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 2.0, ones)]),
        Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 2.0, ones * 2)]),
    ]
    assert len({mixture.digest for mixture in mixtures}) == len(mixtures)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([], "at least one source"),
        ([MixturePart(BIG, 1.0), MixturePart(SMALL)], "weight: source 1 .*all .*none"),
        ([MixturePart(SMALL, clip_weights=np.zeros(10))], "weight: .*source 0 .*finite"),
        ([MixturePart(SMALL, clip_weights=np.full(10, -1.0))], "weight: .*source 0 .*finite"),
        ([MixturePart(SMALL, clip_weights=np.full(10, np.nan))], "weight: .*source 0 .*finite"),
    ],
)
def test_weights_that_cannot_be_meant_are_refused(parts: list[MixturePart], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Mixture(parts)


def test_weights_without_shuffling_are_refused_instead_of_ignored() -> None:
    with pytest.raises(ConfigError, match="weights need shuffle"):
        make_loader(
            Mixture([MixturePart(BIG, 1.0), MixturePart(SMALL, 2.0)]), Crop(num_frames=5, batch_size=8, shuffle=False)
        )


def test_drawing_from_a_million_clips_is_exact() -> None:
    rng = np.random.default_rng(0)
    weights = DrawWeights(rng.exponential(size=1_000_000), np.repeat(np.arange(10), 100_000))
    order = draw_order(weights, Shuffler("d", 0, 0))
    expected = weights.clips / weights.clips.sum() * 1_000_000
    counts = np.bincount(order, minlength=1_000_000)
    assert counts.sum() == 1_000_000 and np.abs(counts - expected).max() < 1 + 1e-6
    of_parts = np.bincount(weights.parts, counts) - np.bincount(weights.parts, expected)
    assert np.abs(of_parts).max() < 1 + 1e-6
