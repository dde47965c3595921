"""Generate with a flow model: texts, labels and numbers in, latents drawn from noise, audio out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, final

import torch
from jaxtyping import Bool, Float
from pydantic import TypeAdapter
from torch import Tensor

from solfa.audio.channels import Audio
from solfa.codecs.protocol import Codec, Encoded
from solfa.codecs.spec import parse_spec
from solfa.config import Config, parse_config
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.data_codec import DataCodec, latents_array
from solfa.generate.generator import OnStep, device_of
from solfa.generate.options import with_options
from solfa.generate.request import (
    ClipRequest,
    Inpainting,
    Variation,
    edited_seconds,
    is_number,
    read_edited,
    read_prompt,
    with_text,
)
from solfa.generate.stream import OnAudio
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.flow.config import FlowModelConfig
from solfa.models.flow.generation import FlowSampling, Start, draw_points
from solfa.models.flow.latents import has_scale
from solfa.models.flow.network import FlowNetwork, build_flow
from solfa.models.flow.published_models import load_published, read_published
from solfa.models.flow.windows import Window, draw_in_windows, plan_windows
from solfa.models.lm.conditions import Conditions

CLIPS_AT_ONCE = 8


class LatentJob(NamedTuple):
    """A request in the model's terms."""

    request: ClipRequest
    told: Mapping[str, Any]
    """Conditions of the conditioners, by name."""
    seconds: tuple[float, ...]
    """The timing that the model is told."""
    given: Float[Tensor, "T Z"]
    """Latents that are known, zeros elsewhere."""
    is_given: Bool[Tensor, "T"]
    """Which of them must come out as they are."""
    strength: float = 1.0
    """Below 1, the clip starts from `given`; so much of it becomes noise."""

    @property
    def num_frames(self) -> int:
        return len(self.given)


class LatentBatch(NamedTuple):
    """Jobs of one length, and how to embed their conditions when their turn comes."""

    jobs: Sequence[LatentJob]
    embed: Callable[[], Conditions]


@final
class LatentModel:
    """A `ClipGenerator` around a flow model and its conditioners."""

    Options: ClassVar[type[Config]] = FlowSampling
    edits: ClassVar[bool] = True

    def __init__(self, network: FlowNetwork, data_codec: DataCodec, sampling: FlowSampling) -> None:
        self.network, self.sampling = network, sampling
        self._data_codec = data_codec

    @classmethod
    def build(cls, config: Mapping[str, Any], data_facts: Mapping[str, Any]) -> "LatentModel":
        """Build an untrained model from the settings of an experiment."""
        array = latents_array(data_facts)
        model: FlowModelConfig = TypeAdapter(FlowModelConfig).validate_python(config["model"])
        conditions = parse_config(ConditionsConfig, config.get("conditioner") or {}, "conditioner")
        network = build_flow(model, conditions, num_means(data_facts))
        stage = config.get("generate") or {}
        sampling = parse_config(FlowSampling, stage.get("sampling") or {}, "generate.sampling")
        return cls(network, DataCodec(str(config.get("codec") or data_facts["codec"]), array), sampling)

    @property
    def codec(self) -> Codec:
        return self._data_codec.on(device_of(self.network))

    @property
    def frame_rate(self) -> float:
        """Latents per second; the codec need not be loaded for that."""
        return self._data_codec.array.frame_rate

    @property
    def conditions(self) -> Mapping[str, str]:
        own = {name: part.kind for name, part in self.network.conditioners.config.conditioners.items()}
        return {**dict.fromkeys(self.network.config.timing, "number"), **own}

    def load_pretrained(self, location: str) -> str:
        """Load a pipeline of diffusers or a model of stable-audio-tools."""
        return load_published(self.network, read_published(location.removeprefix("//pretrained/")), location)

    def draw(
        self,
        requests: Sequence[ClipRequest],
        options: Mapping[str, Any],
        on_step: OnStep,
        on_audio: OnAudio | None = None,
    ) -> Iterator[GeneratedClip]:
        """Draw clips in batches of equal length; they come ordered by length."""
        settings = with_options(self.sampling, options)
        jobs = [self._job(request) for request in requests]
        batches = [
            LatentBatch(alike, self.network.conditioners.checked([job.told for job in alike])) for alike in _alike(jobs)
        ]
        return self._draw(batches, settings, on_step)

    def _draw(self, batches: Sequence[LatentBatch], settings: FlowSampling, on_step: OnStep) -> Iterator[GeneratedClip]:
        sizes = [len(batch.jobs) * len(self._windows(batch.jobs, settings)) for batch in batches]
        total, done = sum(sizes) * settings.steps, 0
        for batch, size in zip(batches, sizes, strict=True):

            def report(share: float, before: int = done, size: int = size) -> None:
                on_step(before + round(size * settings.steps * share), total)

            latents = self._latents(batch, settings, report)
            done += size * settings.steps
            for job, row in zip(batch.jobs, latents, strict=True):
                yield self._decode(job, row, settings)

    def _windows(self, jobs: Sequence[LatentJob], settings: FlowSampling) -> list[Window]:
        """Say in which windows clips of one length are drawn."""
        frames = jobs[0].num_frames
        if settings.window_seconds is None:
            size = int(self.network.trained_frames) or frames
        else:
            size = max(2, round(settings.window_seconds * self.codec.frame_rate))
        return plan_windows(frames, size, min(size - 1, max(1, round(settings.overlap * size))))

    def _latents(
        self, batch: LatentBatch, settings: FlowSampling, report: Callable[[float], None]
    ) -> Float[Tensor, "B T Z"]:
        network, jobs = self.network.eval(), batch.jobs
        windows, start = self._windows(jobs, settings), self._start(jobs)
        with torch.inference_mode():
            told, absent = batch.embed(), network.conditioners.null(len(jobs))

        def draw(window: Window, within: Start) -> Float[Tensor, "B Z W"]:
            number = windows.index(window)
            seconds = self._seconds(jobs, window.start)
            return draw_points(
                network,
                network.told(told, seconds),
                network.told(absent, seconds),
                window.stop - window.start,
                [job.request.seed if not number else _window_seed(job.request.seed, number) for job in jobs],
                settings,
                within,
                lambda step: report((number + step / settings.steps) / len(windows)),
            )

        like = network.mean.new_zeros(len(jobs), network.num_channels, jobs[0].num_frames)
        with torch.inference_mode():
            return network.restored(draw_in_windows(draw, windows, start, like))

    def _seconds(self, jobs: Sequence[LatentJob], first_frame: int) -> Float[Tensor, "B M"]:
        """Tell where a window begins, in training's terms: as a crop of the whole clip."""
        names = self.network.config.timing
        later = first_frame / self.codec.frame_rate
        rows = [
            [
                value + (later if name == "seconds_start" else 0.0)
                for name, value in zip(names, job.seconds, strict=True)
            ]
            for job in jobs
        ]
        return torch.tensor(rows).reshape(len(jobs), len(names))

    def _start(self, jobs: Sequence[LatentJob]) -> Start:
        """Put what is known in its place; the jobs have one strength."""
        device, strength = device_of(self.network), jobs[0].strength
        given = self.network.normalised(torch.stack([job.given for job in jobs]).to(device))
        mask = torch.stack([job.is_given for job in jobs]).to(device)
        return Start(
            init=given if strength < 1 else None,
            strength=strength,
            given=given if bool(mask.any()) else None,
            given_mask=mask,
        )

    def _job(self, request: ClipRequest) -> LatentJob:
        told = with_text(request.conditions, request.text, self.conditions)
        given, is_given, strength = self._given(request)
        timing = {"seconds_start": 0.0, "seconds_total": request.seconds}
        for name in self.network.config.timing:
            if name in told:
                value = told.pop(name)
                if not is_number(value):
                    raise ConfigError(f"`conditions`: expected {name} to be a number of seconds, found {value!r}")
                timing[name] = float(value)
        seconds = tuple(timing[name] for name in self.network.config.timing)
        return LatentJob(request, told, seconds, given, is_given, strength)

    def _given(self, request: ClipRequest) -> tuple[Float[Tensor, "T Z"], Bool[Tensor, "T"], float]:
        """Encode the prompt or the recording to change, and choose the frames that stay."""
        if isinstance(request.prompt, Tensor):
            raise ConfigError(f"clip {request.name!r}: expected `prompt` to be an audio file, found codes")
        if request.edit is not None:
            edited_seconds(request)
        rate, edit = self.codec.frame_rate, request.edit
        if edit is not None:
            latents = self._encoded(read_edited(request, self.codec.sample_rate, self.codec.num_channels))
            stays = torch.zeros(len(latents), dtype=torch.bool)
            if isinstance(edit, Inpainting):
                stays[:] = True
                stays[round(edit.start * rate) : max(round(edit.start * rate) + 1, round(edit.stop * rate))] = False
                return latents, stays, 1.0
            return latents, stays, edit.strength
        given = torch.zeros(max(1, round(request.seconds * rate)), self.network.num_channels)
        stays = torch.zeros(len(given), dtype=torch.bool)
        if request.prompt is not None:
            prompt = self._encoded(read_prompt(request, self.codec.sample_rate, self.codec.num_channels))
            begin = min(len(prompt), len(given))
            given[:begin], stays[:begin] = prompt[:begin], True
        return given, stays, 1.0

    def _encoded(self, audio: Audio) -> Float[Tensor, "T Z"]:
        encoded = self.codec.encode(torch.from_numpy(audio)[None]).array[0]
        return encoded[:, : self.network.num_channels].float().cpu()

    def _decode(self, job: LatentJob, latents: Float[Tensor, "T Z"], settings: FlowSampling) -> GeneratedClip:
        codec, request = self.codec, job.request
        # A codec that stores a scale, too, decodes the means alone.
        padding = latents.new_zeros(len(latents), self._data_codec.array.width - latents.shape[1])
        array = torch.cat([latents, padding], dim=1)[None]
        with torch.inference_mode():
            audio = codec.decode(Encoded(array, array.shape[1] * codec.hop_length))[0]
        timing: dict[str, Any] = dict(zip(self.network.config.timing, job.seconds, strict=True))
        metadata = {
            "seed": request.seed,
            "seconds": audio.shape[-1] / codec.sample_rate,
            "conditions": {**timing, **job.told},
            **self._edit_facts(job),
            **request.file_facts(),
            "codec": codec.spec,
            "sampling": settings.model_dump(mode="json"),
        }
        return GeneratedClip(request.name, audio.float().cpu(), codec.sample_rate, metadata)

    def _edit_facts(self, job: LatentJob) -> dict[str, Any]:
        edit = job.request.edit
        if isinstance(edit, Variation):
            return {"strength": edit.strength}
        if isinstance(edit, Inpainting):
            return {"inpainted_from": edit.start, "inpainted_to": edit.stop}
        return {"prompt_seconds": int(job.is_given.sum()) / self.codec.frame_rate}


def num_means(data_facts: Mapping[str, Any]) -> int:
    """Count the channels that a model of this data draws: half of them, if the other half are scales."""
    width = latents_array(data_facts).width
    return width // 2 if has_scale(parse_spec(str(data_facts["codec"])).options) else width


def _window_seed(seed: int, number: int) -> int:
    """Give a window draws of its own, that depend on its clip's seed alone; the first has the clip's."""
    return stable_key("window", seed, number) % 2**63


def _alike(jobs: Sequence[LatentJob]) -> Iterable[list[LatentJob]]:
    def lengths(job: LatentJob) -> tuple[float, ...]:
        return job.num_frames, job.strength, job.is_given.any().item()

    for _, group in groupby(sorted(jobs, key=lengths), lengths):
        alike = list(group)
        for start in range(0, len(alike), CLIPS_AT_ONCE):
            yield alike[start : start + CLIPS_AT_ONCE]
