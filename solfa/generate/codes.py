"""From requests for clips to audio: condition, generate codes in batches of equal length, decode."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from solfa.codecs.protocol import Codec, Encoded
from solfa.generate.clip import GeneratedClip
from solfa.models.lm.generation import CodesModel, Condition, GenerationSettings, generate

CLIPS_AT_ONCE = 16
"""Reading the weights once for 16 clips is much faster than 16 times for one; more take memory and gain little."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class ClipRequest:
    """One clip to generate; its draws depend on its seed alone."""

    name: str
    seconds: float
    seed: int
    attributes: Mapping[str, Any]
    """Values by the name of the conditioner; what is not there is absent."""
    prompt: Int64[Tensor, "K T"] | None = None
    """Codes to begin with; they count towards the seconds."""

    @property
    def prompt_frames(self) -> int:
        return 0 if self.prompt is None else self.prompt.shape[1]


ConditionsOf = Callable[[Sequence[Mapping[str, Any]]], Callable[[], Condition]]
"""Checks the attributes of clips at once, and embeds them when it is their turn."""


def generate_clips(
    model: CodesModel[Any],
    conditions_of: ConditionsOf,
    codec: Codec,
    requests: Sequence[ClipRequest],
    settings: GenerationSettings,
    on_step: Progress | None = None,
    clips_at_once: int = CLIPS_AT_ONCE,
) -> Iterator[GeneratedClip]:
    """Generate the requested clips, those of equal length together; they come in the order of their lengths."""
    batches = list(_batches(requests, codec.frame_rate, clips_at_once))
    total = sum(num_frames * len(batch) for num_frames, batch in batches)
    # All at once, so that a condition which the model does not have is found out before the first clip is generated.
    conditions = [conditions_of([request.attributes for request in batch]) for _, batch in batches]
    done = 0
    for (num_frames, batch), embed in zip(batches, conditions, strict=True):
        before, weight = done, num_frames * len(batch)

        def report(step: int, steps: int, before: int = before, weight: int = weight) -> None:
            if on_step is not None:
                on_step(before + weight * step // steps, total)

        codes = _generate_batch(model, batch, embed, num_frames, settings, report)
        done += weight
        for request, row in zip(batch, codes, strict=True):
            yield _decode(codec, request, row, settings)


def _batches(
    requests: Sequence[ClipRequest], frame_rate: float, clips_at_once: int
) -> Iterable[tuple[int, list[ClipRequest]]]:
    def lengths(request: ClipRequest) -> tuple[int, int]:
        return max(1, round(request.seconds * frame_rate)), request.prompt_frames

    for (num_frames, _), group in groupby(sorted(requests, key=lengths), lengths):
        alike = list(group)
        for start in range(0, len(alike), clips_at_once):
            yield num_frames, alike[start : start + clips_at_once]


def _generate_batch(
    model: CodesModel[Any],
    batch: Sequence[ClipRequest],
    embed: Callable[[], Condition],
    num_frames: int,
    settings: GenerationSettings,
    on_step: Progress,
) -> Int64[Tensor, "B K T"]:
    with torch.inference_mode():
        conditions = embed()
    prompts = [request.prompt for request in batch if request.prompt is not None and request.prompt_frames]
    codes: Tensor = generate(
        model,
        conditions,
        num_frames,
        settings,
        seeds=[request.seed for request in batch],
        prompt=torch.stack(prompts) if prompts else None,
        on_step=on_step,
    )
    return codes


def _decode(
    codec: Codec, request: ClipRequest, codes: Int64[Tensor, "K T"], settings: GenerationSettings
) -> GeneratedClip:
    array = codes.transpose(0, 1)[None].contiguous()
    with torch.inference_mode():
        audio = codec.decode(Encoded(array, array.shape[1] * codec.hop_length))[0]
    metadata = {
        "seed": request.seed,
        "seconds": audio.shape[-1] / codec.sample_rate,
        "attributes": dict(request.attributes),
        "prompt_seconds": request.prompt_frames / codec.frame_rate,
        "codec": codec.spec,
        "sampling": settings.model_dump(mode="json"),
    }
    return GeneratedClip(request.name, audio.float().cpu(), codec.sample_rate, metadata)
