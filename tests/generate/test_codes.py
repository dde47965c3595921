"""Clips come out as they were asked for, each the same whatever is generated beside it."""

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.codes import BestOf, CodesJob, candidate_seeds, generate_clips
from solfa.generate.request import ClipRequest
from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig
from solfa.models.lm.candidates import best_candidate, blind_log_probs
from solfa.models.lm.generation import GenerationSettings
from solfa.models.lm.network import CodecLM, CodecLMConfig

RATE = 1000
LABELS = {"kind": "labels", "source": "genre", "vocabulary": ["jazz", "folk"]}
SETTINGS = GenerationSettings(top_k=0)


@pytest.fixture(scope="module")
def codec() -> Codec:
    return load_codec(f"mulaw:bits=4,sample_rate={RATE},num_channels=2")


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    config = CodecLMConfig(num_codebooks=2, codebook_size=16, dim=16, num_layers=2, num_heads=2, ffn_dim=32)
    conditions = ConditionsConfig.model_validate({"conditioners": {"genre": LABELS}})
    lm = CodecLM(config)
    with torch.no_grad():
        # As drawn, the weights are so small that every code is as probable as any other.
        for parameter in lm.parameters():
            parameter.mul_(8)
    # In float64, what is drawn does not hang on how clips that are drawn together are rounded.
    return SimpleNamespace(lm=lm.double(), conditioners=ConditionerSet(conditions, 16))


def request(name: str, frames: int = 20, seed: int = 0, genre: str = "jazz", prompt: Tensor | None = None) -> CodesJob:
    return CodesJob(ClipRequest(name, frames / RATE, seed), {"genre": genre}, prompt)


def generated(network: Any, codec: Codec, *wanted: Any) -> Iterator[GeneratedClip]:
    return generate_clips(network.lm, network.conditioners.checked, codec, *wanted)


def codes(codec: Codec, clip: GeneratedClip) -> Tensor:
    """What a clip was decoded from: mu-law gives back the codes of what it decodes."""
    return codec.encode(torch.as_tensor(clip.audio)[None]).array[0].long().T


def test_clips_have_their_names_lengths_and_rate_in_the_order_of_their_lengths(network: Any, codec: Codec) -> None:
    requests = [request("long", 30), request("short", 10), request("also long", 30)]
    clips = list(generated(network, codec, requests, SETTINGS))
    assert [(clip.name, tuple(clip.audio.shape)) for clip in clips] == [
        *(("short", (2, 10)), ("long", (2, 30)), ("also long", (2, 30)))
    ]
    assert all(clip.sample_rate == RATE for clip in clips)


@pytest.mark.parametrize("clips_at_once", [1, 2, 16])
def test_a_clip_is_the_same_alone_and_among_others(network: Any, codec: Codec, clips_at_once: int) -> None:
    others = [request(f"clip{seed}", seed=seed, genre="folk") for seed in range(4)]
    alone = list(generated(network, codec, [request("mine", seed=9)], SETTINGS))
    together = list(generated(network, codec, [*others, request("mine", seed=9)], SETTINGS, None, clips_at_once))
    (mine,) = [clip for clip in together if clip.name == "mine"]
    assert torch.equal(mine.audio, alone[0].audio)
    assert len({tuple(clip.audio.flatten().tolist()) for clip in together}) == 5, "other seeds, other clips"


def test_conditions_matter(network: Any, codec: Codec) -> None:
    rows = [{"genre": "jazz"}, {"genre": "folk"}, {}]
    requests = [CodesJob(ClipRequest(str(number), 0.04, 0), row) for number, row in enumerate(rows)]
    clips = list(generated(network, codec, requests, SETTINGS))
    assert len({tuple(clip.audio.flatten().tolist()) for clip in clips}) == 3


def test_clips_begin_with_their_prompts_of_any_length(network: Any, codec: Codec) -> None:
    prompts = {"a": torch.randint(16, (2, 7)), "b": torch.randint(16, (2, 7)), "c": torch.randint(16, (2, 12))}
    empty = torch.zeros(2, 0, dtype=torch.int64)
    requests = [request(name, prompt=prompt) for name, prompt in prompts.items()]
    requests += [request("d"), request("e", prompt=empty)]
    clips = list(generated(network, codec, requests, SETTINGS))
    assert sorted(clip.name for clip in clips) == ["a", "b", "c", "d", "e"]
    for clip in clips:
        prompt = prompts.get(clip.name, empty)
        assert torch.equal(codes(codec, clip)[:, : prompt.shape[1]], prompt)
        assert clip.metadata["prompt_seconds"] == prompt.shape[1] / RATE
        assert clip.audio.shape[1] == 20


def test_what_a_clip_was_made_from_is_told(network: Any, codec: Codec) -> None:
    (clip,) = generated(network, codec, [request("x", seed=4)], GenerationSettings(top_k=5, temperature=0.5))
    assert clip.metadata == {
        "seed": 4,
        "seconds": 0.02,
        "conditions": {"genre": "jazz"},
        "prompt_seconds": 0.0,
        "codec": codec.spec,
        "sampling": {"temperature": 0.5, "top_k": 5, "top_p": 0.0, "guidance_scale": 3.0},
    }


def test_progress_counts_the_frames_of_all_clips_up_to_the_end(network: Any, codec: Codec) -> None:
    told: list[tuple[int, int]] = []
    requests = [request("a", 30), request("b", 10), request("c", 30, prompt=torch.zeros(2, 5).long())]
    list(generated(network, codec, requests, SETTINGS, lambda done, total: told.append((done, total))))
    assert {total for _, total in told} == {70}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (70, 70)


def test_a_clip_shorter_than_a_frame_has_one(network: Any, codec: Codec) -> None:
    (clip,) = generated(network, codec, [CodesJob(ClipRequest("x", 1e-6, 0), {})], SETTINGS)
    assert clip.audio.shape == (2, 1)


def test_an_unknown_condition_is_found_out_before_the_first_clip(network: Any, codec: Codec) -> None:
    requests = [request("fine", 5), CodesJob(ClipRequest("odd", 0.03, 0), {"gnre": "jazz"})]
    with pytest.raises(ConfigError, match=r"'gnre'.*did you mean 'genre'"):
        generated(network, codec, requests, SETTINGS)


def test_nothing_asked_for_is_nothing_generated(network: Any, codec: Codec) -> None:
    assert list(generated(network, codec, [], SETTINGS)) == []


@pytest.mark.parametrize("clips_at_once", [1, 4, 16])
def test_of_several_candidates_the_one_is_kept_that_agrees_best_whatever_is_drawn_beside_it(
    network: Any, codec: Codec, clips_at_once: int
) -> None:
    def choose(told: Mapping[str, Any], codes: torch.Tensor) -> int:
        return best_candidate(blind_log_probs(network.lm, network.conditioners.checked([told, {}])(), codes))

    best_of = BestOf(3, choose)
    wanted = [request("jazz", seed=1), request("folk", seed=2, genre="folk"), request("long", 30, seed=3)]
    kept = list(generated(network, codec, wanted, SETTINGS, None, clips_at_once, best_of))
    assert [clip.name for clip in kept] == ["jazz", "folk", "long"]
    choices = []
    for job, clip in zip(wanted, kept, strict=True):
        frames = round(job.request.seconds * RATE)
        alone = [request(str(seed), frames, seed, job.told["genre"]) for seed in candidate_seeds(job.request.seed, 3)]
        candidates = list(generated(network, codec, alone, SETTINGS))
        drawn = torch.stack([codes(codec, candidate) for candidate in candidates])
        best = choose(job.told, drawn)
        assert torch.equal(clip.audio, candidates[best].audio)
        assert clip.metadata["seed"] == job.request.seed
        choices.append(best)
    assert set(choices) != {0}, "it is not always the first"


def test_candidates_have_seeds_of_their_own_and_the_first_has_the_clips() -> None:
    seeds = [seed for clip in range(50) for seed in candidate_seeds(clip, 4)]
    assert len(set(seeds)) == 200 and candidate_seeds(7, 1) == [7] and candidate_seeds(7, 4)[0] == 7
    assert candidate_seeds(7, 4)[:2] == candidate_seeds(7, 2), "more candidates keep those that were there"
