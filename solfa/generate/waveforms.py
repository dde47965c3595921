"""From requests to waveforms: draw classes in batches of equal length, decode, sort and reject by likelihood.

The SaShiMi protocol draws many clips, sorts them by their likelihood and drops both tails: the least likely are noise,
the most likely are silence.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from pydantic import Field, model_validator
from torch import Tensor

from solfa.codecs.families.quantized import WaveformCodec
from solfa.codecs.protocol import Encoded
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.generator import OnStep
from solfa.generate.request import ClipRequest
from solfa.generate.stream import AudioBlock, OnAudio
from solfa.models.sashimi.generation import WaveformSampling, generate_classes
from solfa.models.sashimi.heads import OutputHead
from solfa.models.sashimi.network import Sashimi

CLIPS_AT_ONCE = 64
"""A step takes barely longer for many clips than for one."""


class WaveformChoices(WaveformSampling):
    """How clips are drawn, and which of them are kept."""

    reject_lowest: float = Field(default=0.0, ge=0, lt=1)
    """Drop this share of the clips, those with the lowest likelihood."""
    reject_highest: float = Field(default=0.0, ge=0, lt=1)
    sort: bool = False
    """Sort the clips by likelihood, the most likely first, each with its rank; rejecting some does so as well."""

    @model_validator(mode="after")
    def _something_is_left(self) -> "WaveformChoices":
        if self.reject_lowest + self.reject_highest >= 1:
            raise ValueError(
                f"expected reject_lowest + reject_highest below 1, found {self.reject_lowest:g} and "
                f"{self.reject_highest:g}"
            )
        return self

    @property
    def sorts(self) -> bool:
        return self.sort or self.reject_lowest + self.reject_highest > 0

    @property
    def sampling(self) -> WaveformSampling:
        return WaveformSampling(temperature=self.temperature, semantics=self.semantics)


class WaveformJob(NamedTuple):
    """A request in the model's terms: how many samples, and the classes to start with."""

    request: ClipRequest
    num_samples: int
    prompt: Int64[Tensor, "N0"] | None = None

    @property
    def prompt_samples(self) -> int:
        return 0 if self.prompt is None else len(self.prompt)


class LikelyClip(NamedTuple):
    """A clip and the log-probability of each sample that the model drew."""

    clip: GeneratedClip
    bits_per_sample: float


def generate_waveforms(
    model: Sashimi,
    head: OutputHead,
    codec: WaveformCodec,
    jobs: Sequence[WaveformJob],
    sampling: WaveformSampling,
    on_step: OnStep | None = None,
    on_audio: OnAudio | None = None,
    clips_at_once: int = CLIPS_AT_ONCE,
) -> Iterator[LikelyClip]:
    """Generate the requested clips in batches of equal length; they come ordered by length.

    `on_audio` receives each block of each clip before `on_step` counts it.
    """
    total, done = sum(job.num_samples for job in jobs), 0
    for batch in _batches(jobs, clips_at_once):
        before = done

        def report(
            block: Tensor, samples: int, of: int, before: int = before, batch: Sequence[WaveformJob] = batch
        ) -> None:
            if on_audio is not None:
                for job, audio in zip(batch, _sound(codec, block), strict=True):
                    on_audio(AudioBlock(job.request.name, audio, codec.sample_rate, is_last=samples == of))
            if on_step is not None:
                on_step(before + len(batch) * samples, total)

        prompts = [job.prompt for job in batch if job.prompt is not None]
        drawn = generate_classes(
            model,
            head,
            batch[0].num_samples,
            sampling,
            [job.request.seed for job in batch],
            torch.stack(prompts) if prompts else None,
            report,
        )
        done += len(batch) * batch[0].num_samples
        for job, classes, nats in zip(batch, drawn.classes, drawn.log_prob.tolist(), strict=True):
            yield _decode(codec, job, classes, nats, sampling)


def _batches(jobs: Sequence[WaveformJob], clips_at_once: int) -> Iterable[list[WaveformJob]]:
    def lengths(job: WaveformJob) -> tuple[int, int]:
        return job.num_samples, job.prompt_samples

    for _, group in groupby(sorted(jobs, key=lengths), lengths):
        alike = list(group)
        yield from (alike[start : start + clips_at_once] for start in range(0, len(alike), clips_at_once))


def _decode(
    codec: WaveformCodec, job: WaveformJob, classes: Int64[Tensor, "N"], nats: float, sampling: WaveformSampling
) -> LikelyClip:
    (audio,) = _sound(codec, classes[None])
    bits = -nats / math.log(2) / max(1, job.num_samples - job.prompt_samples)
    metadata = {
        "seed": job.request.seed,
        "seconds": len(classes) / codec.sample_rate,
        "prompt_seconds": job.prompt_samples / codec.sample_rate,
        **job.request.file_facts(),
        "codec": codec.spec,
        "sampling": sampling.model_dump(mode="json"),
        "log_prob": nats,
        "bits_per_sample": bits,
    }
    return LikelyClip(GeneratedClip(job.request.name, audio, codec.sample_rate, metadata), bits)


def _sound(codec: WaveformCodec, classes: Int64[Tensor, "B N"]) -> Float[Tensor, "B C N"]:
    """Decode classes; each sample is one class, so a clip can be decoded block by block."""
    return codec.decode(Encoded(classes[..., None].cpu(), classes.shape[1])).float().cpu()


def keep_likely(clips: Sequence[LikelyClip], lowest: float, highest: float) -> list[LikelyClip]:
    """Sort clips by likelihood, highest first, and drop a share at both ends; it is an error if none are left.

    Each gets its rank among all clips, those that are dropped included.
    """
    ordered = sorted(clips, key=lambda likely: likely.bits_per_sample)
    return [_ranked(ordered[rank], rank + 1, len(ordered)) for rank in kept_ranks(len(ordered), lowest, highest)]


def _ranked(likely: LikelyClip, rank: int, count: int) -> LikelyClip:
    metadata = {**likely.clip.metadata, "rank": rank, "ranked_clips": count}
    return likely._replace(clip=replace(likely.clip, metadata=metadata, rank=f"{rank:0{len(str(count))}d}"))


def kept_ranks(count: int, lowest: float, highest: float) -> range:
    """Return the ranks of the clips to keep, counted from the most likely; it is an error if none are left."""
    kept = range(round(highest * count), count - round(lowest * count))
    if not kept:
        raise ConfigError(
            f"`reject_lowest`, `reject_highest`: {lowest:g} and {highest:g} leave none of {count} clips; "
            "generate more, or reject less"
        )
    return kept
