"""From requests for clips to audio: condition, generate codes in batches of equal length, choose, decode."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from solfa.codecs.protocol import Codec, Encoded
from solfa.generate.clip import GeneratedClip
from solfa.generate.generator import OnStep
from solfa.generate.request import ClipRequest, read_prompt
from solfa.models.lm.generation import BatchConditions, CodesModel, GenerationSettings, generate

CLIPS_AT_ONCE = 16
"""Reading the weights once for 16 clips is much faster than 16 times; larger batches cost memory and gain little."""

ConditionsOf = Callable[[Sequence[Mapping[str, Any]]], Callable[[], BatchConditions]]
"""Checks the conditions of all clips right away, and embeds them when their turn comes."""


class CodesJob(NamedTuple):
    """A request in the model's terms: its conditions by name, and the codes to start with."""

    request: ClipRequest
    told: Mapping[str, Any]
    prompt: Int64[Tensor, "K T"] | None = None

    @property
    def prompt_frames(self) -> int:
        return 0 if self.prompt is None else self.prompt.shape[1]


class BestOf(NamedTuple):
    """Draw several of each clip, and keep the one that fits its conditions best."""

    num: int
    choose: Callable[[Mapping[str, Any], Int64[Tensor, "N K T"]], int]
    """Chooses one of the clips that have the same conditions."""


class _Batch(NamedTuple):
    num_frames: int
    jobs: Sequence[CodesJob]
    num_each: int
    embed: Callable[[], BatchConditions]

    @property
    def weight(self) -> int:
        return self.num_frames * self.num_each * len(self.jobs)


def prompt_codes(request: ClipRequest, codec: Codec, device: torch.device) -> Int64[Tensor, "K T"] | None:
    """Return the codes that a clip starts with; a file is read and encoded."""
    if request.prompt is None:
        return None
    if isinstance(request.prompt, Tensor):
        return request.prompt.transpose(0, 1).to(device)
    audio = torch.from_numpy(read_prompt(request, codec.sample_rate, codec.num_channels))
    return codec.encode(audio[None]).array[0].long().transpose(0, 1).to(device)


def generate_clips(
    model: CodesModel[Any],
    conditions_of: ConditionsOf,
    codec: Codec,
    jobs: Sequence[CodesJob],
    settings: GenerationSettings,
    on_step: OnStep | None = None,
    clips_at_once: int = CLIPS_AT_ONCE,
    best_of: BestOf | None = None,
) -> Iterator[GeneratedClip]:
    """Generate the requested clips in batches of equal length; they come ordered by length.

    A condition that the model does not have is reported right away, before the first clip is generated.
    """
    num_each = 1 if best_of is None else best_of.num
    batches = [
        _Batch(num_frames, alike, num_each, conditions_of([job.told for job in alike for _ in range(num_each)]))
        for num_frames, alike in _alike(jobs, codec.frame_rate, max(1, clips_at_once // num_each))
    ]

    def kept(batch: _Batch, codes: Int64[Tensor, "N K T"]) -> Sequence[Int64[Tensor, "K T"]]:
        return codes.unbind() if best_of is None else _best(best_of, batch, codes)

    return _generate(model, codec, batches, settings, kept, on_step)


def candidate_seeds(seed: int, num: int) -> list[int]:
    """Return a seed for each candidate of a clip, the first of which is the clip's own."""
    names = (f"candidate {number} of {seed}" for number in range(1, num))
    return [seed, *(int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "little") for name in names)]


def _generate(
    model: CodesModel[Any],
    codec: Codec,
    batches: Sequence[_Batch],
    settings: GenerationSettings,
    kept: Callable[[_Batch, Int64[Tensor, "N K T"]], Sequence[Int64[Tensor, "K T"]]],
    on_step: OnStep | None,
) -> Iterator[GeneratedClip]:
    total, done = sum(batch.weight for batch in batches), 0
    for batch in batches:

        def report(step: int, steps: int, before: int = done, weight: int = batch.weight) -> None:
            if on_step is not None:
                on_step(before + weight * step // steps, total)

        codes = _generate_batch(model, batch, settings, report)
        done += batch.weight
        for job, row in zip(batch.jobs, kept(batch, codes), strict=True):
            yield _decode(codec, job, row, settings)


def _alike(jobs: Sequence[CodesJob], frame_rate: float, clips_at_once: int) -> Iterable[tuple[int, list[CodesJob]]]:
    def lengths(job: CodesJob) -> tuple[int, int]:
        return max(1, round(job.request.seconds * frame_rate)), job.prompt_frames

    for (num_frames, _), group in groupby(sorted(jobs, key=lengths), lengths):
        alike = list(group)
        for start in range(0, len(alike), clips_at_once):
            yield num_frames, alike[start : start + clips_at_once]


def _generate_batch(
    model: CodesModel[Any], batch: _Batch, settings: GenerationSettings, on_step: OnStep
) -> Int64[Tensor, "N K T"]:
    with torch.inference_mode():
        conditions = batch.embed()
    every = [job for job in batch.jobs for _ in range(batch.num_each)]
    prompts = [job.prompt for job in every if job.prompt is not None and job.prompt_frames]
    codes: Tensor = generate(
        model,
        conditions,
        batch.num_frames,
        settings,
        seeds=[seed for job in batch.jobs for seed in candidate_seeds(job.request.seed, batch.num_each)],
        prompt=torch.stack(prompts) if prompts else None,
        on_step=on_step,
    )
    return codes


def _best(best_of: BestOf, batch: _Batch, codes: Int64[Tensor, "N K T"]) -> list[Int64[Tensor, "K T"]]:
    """Choose one candidate of each clip."""
    candidates = codes.view(len(batch.jobs), -1, *codes.shape[1:])
    return [drawn[best_of.choose(job.told, drawn)] for job, drawn in zip(batch.jobs, candidates, strict=True)]


def _decode(codec: Codec, job: CodesJob, codes: Int64[Tensor, "K T"], settings: GenerationSettings) -> GeneratedClip:
    array = codes.transpose(0, 1)[None].contiguous()
    with torch.inference_mode():
        audio = codec.decode(Encoded(array, array.shape[1] * codec.hop_length))[0]
    metadata = {
        "seed": job.request.seed,
        "seconds": audio.shape[-1] / codec.sample_rate,
        "conditions": dict(job.told),
        "prompt_seconds": job.prompt_frames / codec.frame_rate,
        **job.request.file_facts(),
        "codec": codec.spec,
        "sampling": settings.model_dump(mode="json"),
    }
    return GeneratedClip(job.request.name, audio.float().cpu(), codec.sample_rate, metadata)
