"""Generate with a flow model: texts, labels and numbers in, latents drawn from noise, audio out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, final

import torch
from jaxtyping import Float
from pydantic import TypeAdapter
from torch import Tensor

from solfa.codecs.protocol import Codec, Encoded
from solfa.codecs.spec import parse_spec
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.data_codec import DataCodec, latents_array
from solfa.generate.generator import OnStep, device_of
from solfa.generate.options import with_options
from solfa.generate.request import ClipRequest, is_number, read_prompt, with_text
from solfa.generate.stream import OnAudio
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.flow.config import FlowModelConfig
from solfa.models.flow.generation import FlowSampling, Start, draw_latents
from solfa.models.flow.latents import has_scale
from solfa.models.flow.network import FlowNetwork, build_flow
from solfa.models.lm.conditions import Conditions

CLIPS_AT_ONCE = 8


class LatentJob(NamedTuple):
    """A request in the model's terms."""

    request: ClipRequest
    told: Mapping[str, Any]
    """Conditions of the conditioners, by name."""
    seconds: tuple[float, ...]
    """The timing that the model is told."""
    prompt: Float[Tensor, "T Z"] | None
    num_frames: int

    @property
    def prompt_frames(self) -> int:
        return 0 if self.prompt is None else len(self.prompt)


class _Batch(NamedTuple):
    jobs: Sequence[LatentJob]
    embed: Callable[[], Conditions]


@final
class LatentModel:
    """A `ClipGenerator` around a flow model and its conditioners."""

    Options: ClassVar[type[Config]] = FlowSampling

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
    def conditions(self) -> Mapping[str, str]:
        own = {name: part.kind for name, part in self.network.conditioners.config.conditioners.items()}
        return {**dict.fromkeys(self.network.config.timing, "number"), **own}

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
            _Batch(alike, self.network.conditioners.checked([job.told for job in alike])) for alike in _alike(jobs)
        ]
        return self._draw(batches, settings, on_step)

    def _draw(self, batches: Sequence[_Batch], settings: FlowSampling, on_step: OnStep) -> Iterator[GeneratedClip]:
        total, done = sum(len(batch.jobs) for batch in batches) * settings.steps, 0
        for batch in batches:

            def report(step: int, steps: int, before: int = done, clips: int = len(batch.jobs)) -> None:
                on_step(before + clips * step, total)

            latents = self._latents(batch, settings, report)
            done += len(batch.jobs) * settings.steps
            for job, row in zip(batch.jobs, latents, strict=True):
                yield self._decode(job, row, settings)

    def _latents(self, batch: _Batch, settings: FlowSampling, on_step: OnStep) -> Float[Tensor, "B T Z"]:
        network, jobs = self.network.eval(), batch.jobs
        seconds = torch.tensor([job.seconds for job in jobs]).reshape(len(jobs), -1)
        with torch.inference_mode():
            conditions = network.told(batch.embed(), seconds)
            without = network.told(network.conditioners.null(len(jobs)), seconds)
        return draw_latents(
            network,
            conditions,
            without,
            jobs[0].num_frames,
            [job.request.seed for job in jobs],
            settings,
            self._start(jobs),
            on_step,
        )

    def _start(self, jobs: Sequence[LatentJob]) -> Start:
        """Put the prompts in their places; the jobs have prompts of one length, or none."""
        prompts = [job.prompt for job in jobs if job.prompt is not None]
        if not prompts:
            return Start()
        given = torch.zeros(len(jobs), jobs[0].num_frames, self.network.num_channels)
        given[:, : jobs[0].prompt_frames] = torch.stack(prompts)
        mask = torch.zeros(given.shape[:2], dtype=torch.bool)
        mask[:, : jobs[0].prompt_frames] = True
        device = device_of(self.network)
        return Start(given=self.network.normalised(given.to(device)), given_mask=mask.to(device))

    def _job(self, request: ClipRequest) -> LatentJob:
        told = with_text(request.conditions, request.text, self.conditions)
        timing = {"seconds_start": 0.0, "seconds_total": request.seconds}
        for name in self.network.config.timing:
            if name in told:
                value = told.pop(name)
                if not is_number(value):
                    raise ConfigError(f"`conditions`: expected {name} to be a number of seconds, found {value!r}")
                timing[name] = float(value)
        num_frames = max(1, round(request.seconds * self.codec.frame_rate))
        seconds = tuple(timing[name] for name in self.network.config.timing)
        return LatentJob(request, told, seconds, self._prompt(request), num_frames)

    def _prompt(self, request: ClipRequest) -> Float[Tensor, "T Z"] | None:
        if request.prompt is None:
            return None
        if isinstance(request.prompt, Tensor):
            raise ConfigError(f"clip {request.name!r}: expected `prompt` to be an audio file, found codes")
        audio = torch.from_numpy(read_prompt(request, self.codec.sample_rate, self.codec.num_channels))
        encoded = self.codec.encode(audio[None]).array[0]
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
            "prompt_seconds": job.prompt_frames / codec.frame_rate,
            **request.prompt_facts(),
            "codec": codec.spec,
            "sampling": settings.model_dump(mode="json"),
        }
        return GeneratedClip(request.name, audio.float().cpu(), codec.sample_rate, metadata)


def num_means(data_facts: Mapping[str, Any]) -> int:
    """Count the channels that a model of this data draws: half of them, if the other half are scales."""
    width = latents_array(data_facts).width
    return width // 2 if has_scale(parse_spec(str(data_facts["codec"])).options) else width


def _alike(jobs: Sequence[LatentJob]) -> Iterable[list[LatentJob]]:
    def lengths(job: LatentJob) -> tuple[int, int]:
        return job.num_frames, job.prompt_frames

    for _, group in groupby(sorted(jobs, key=lengths), lengths):
        alike = list(group)
        for start in range(0, len(alike), CLIPS_AT_ONCE):
            yield alike[start : start + CLIPS_AT_ONCE]
