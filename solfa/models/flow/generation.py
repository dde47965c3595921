"""Draw latents with a flow model: noise from each clip's own seed, conditions with guidance, given frames kept exactly.

noise ──► (mixed with an initial clip, if there is one) ──► the sampler's steps ──► latents
                                                             └ after each, given frames are put back in their place
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from pydantic import Field, model_validator
from torch import Tensor

from solfa.config import Config
from solfa.models.flow.dits import FlowConditions, joined
from solfa.models.flow.network import FlowNetwork, known_frames
from solfa.ops.flow_samplers import Grid, Sampler, log_snr_grid, sample, time_grid
from solfa.ops.noise_paths import velocity_on_line


class FlowSampling(Config):
    """How latents are drawn."""

    sampler: Sampler = "euler"
    steps: int = Field(default=50, ge=1)
    """How many steps lead from noise to a clip."""
    grid: Grid = "even"
    """Where the steps are: `even` in time, moved by the model's `time_shift`, or even in `log_snr`."""
    window_seconds: float | None = Field(default=None, gt=0)
    """Longer clips are drawn in windows of this length; None is the length that the model was trained on."""
    overlap: float = Field(default=0.25, gt=0, lt=1)
    """The share of a window that it has in common with the one before."""
    guidance_scale: float = Field(default=1.0, ge=0)
    """How closely to follow the conditions; 1 is off."""
    guidance_from: float = Field(default=1.0, ge=0, le=1)
    """Guidance begins at this time; 1 is noise."""
    guidance_to: float = Field(default=0.0, ge=0, le=1)
    """Guidance ends at this time; 0 is the clip."""
    guidance_rescale: float = Field(default=0.0, ge=0, le=1)
    """How far to bring the loudness of guided latents back to that of unguided ones; 0 is off."""

    @model_validator(mode="after")
    def _interval_is_one(self) -> "FlowSampling":
        if self.guidance_to > self.guidance_from:
            raise ValueError(
                f"guidance_to: expected at most guidance_from ({self.guidance_from:g}), found {self.guidance_to:g}"
            )
        return self


class Start(NamedTuple):
    """What a batch of clips starts from, normalised `[B, Z, T]`."""

    init: Float[Tensor, "B Z T"] | None = None
    strength: float = 1.0
    """How much of `init` becomes noise: 0 leaves it as it is, 1 leaves nothing of it."""
    given: Float[Tensor, "B Z T"] | None = None
    """Frames that must come out as they are."""
    given_mask: Bool[Tensor, "B T"] | None = None


NOTHING = Start()


def clip_noise(generators: Sequence[torch.Generator], num_channels: int, num_frames: int) -> Float[Tensor, "B Z T"]:
    """Draw noise for each clip from its own generator."""
    # Frame by frame, so that a longer clip of the same seed begins with the noise of a shorter one.
    drawn = [torch.randn(num_frames, num_channels, generator=generator).T for generator in generators]
    return torch.stack(drawn)


@torch.inference_mode()
def draw_points(
    network: FlowNetwork,
    conditions: FlowConditions,
    without: FlowConditions,
    num_frames: int,
    seeds: Sequence[int],
    settings: FlowSampling,
    start: Start = NOTHING,
    on_step: Callable[[int], None] = lambda step: None,
) -> Float[Tensor, "B Z T"]:
    """Draw one clip per seed, normalised; `without` are the conditions that guidance leads away from."""
    device = network.mean.device
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    new_noise = partial(_noise_on, device, generators, network.num_channels, num_frames)
    noise = new_noise()
    if start.strength == 0 and start.init is not None:
        return _kept(start, start.init)
    times = _times(network, settings, start.strength, num_frames)
    begin = times[0]
    points = noise if start.init is None else (1 - begin) * start.init + begin * noise
    heard = None
    if start.given is not None and start.given_mask is not None and network.hears_known:
        heard = known_frames(start.given, start.given_mask)

    def velocity(points: Float[Tensor, "B Z T"], time: float) -> Float[Tensor, "B Z T"]:
        return _guided(network, conditions, without, settings, heard, points, time)

    def known(points: Float[Tensor, "B Z T"], time: float) -> Float[Tensor, "B Z T"]:
        if start.given is None or start.given_mask is None:
            return points
        there = (1 - time) * start.given + time * noise
        return torch.where(start.given_mask[:, None], there, points)

    return sample(velocity, points, times, settings.sampler, new_noise, known, on_step)


def draw_latents(
    network: FlowNetwork,
    conditions: FlowConditions,
    without: FlowConditions,
    num_frames: int,
    seeds: Sequence[int],
    settings: FlowSampling,
    start: Start = NOTHING,
) -> Float[Tensor, "B T Z"]:
    """Draw the latents of one clip per seed; `without` are the conditions that guidance leads away from.

    >>> import torch
    >>> from solfa.models import ConditionsConfig, FlowSampling, StableAudio3Config, build_flow, draw_latents
    >>> config = StableAudio3Config(kind="stable_audio_3", dim=32, num_layers=1, num_heads=2, cond_dim=8)
    >>> network = build_flow(config, ConditionsConfig(), num_channels=4).eval()
    >>> seconds = torch.tensor([[0.0, 2.0], [0.0, 2.0]])  # where each clip begins, and how long it is
    >>> nothing = network.told(network.conditioners.null(2), seconds)
    >>> draw_latents(network, nothing, nothing, num_frames=16, seeds=[0, 1], settings=FlowSampling(steps=2)).shape
    torch.Size([2, 16, 4])
    """
    return network.restored(draw_points(network, conditions, without, num_frames, seeds, settings, start))


def _times(network: FlowNetwork, settings: FlowSampling, begin: float, num_frames: int) -> list[float]:
    if settings.grid == "log_snr":
        return log_snr_grid(settings.steps, begin)
    return time_grid(settings.steps, begin, network.config.shift_at(num_frames))


def _noise_on(
    device: torch.device, generators: Sequence[torch.Generator], num_channels: int, num_frames: int
) -> Float[Tensor, "B Z T"]:
    return clip_noise(generators, num_channels, num_frames).to(device)


def _kept(start: Start, points: Float[Tensor, "B Z T"]) -> Float[Tensor, "B Z T"]:
    if start.given is None or start.given_mask is None:
        return points
    return torch.where(start.given_mask[:, None], start.given, points)


def _guided(
    network: FlowNetwork,
    conditions: FlowConditions,
    without: FlowConditions,
    settings: FlowSampling,
    heard: Float[Tensor, "B Y T"] | None,
    points: Float[Tensor, "B Z T"],
    time: float,
) -> Float[Tensor, "B Z T"]:
    objective = network.config.objective

    def velocity(told: FlowConditions) -> Float[Tensor, "b Z T"]:
        copies = len(told.context) // len(points)
        given = None if heard is None else heard.repeat(copies, 1, 1)
        predict = lambda read, own: network.predict(read, own, told, known=given)  # noqa: E731
        several = points.repeat(copies, 1, 1)
        return velocity_on_line(predict, objective, several, several.new_full((len(several),), time))

    if settings.guidance_scale == 1 or not settings.guidance_to <= time <= settings.guidance_from:
        return velocity(conditions)
    # In one pass, which takes less time than two.
    towards, away = velocity(joined(conditions, without)).chunk(2)
    guided = away + settings.guidance_scale * (towards - away)
    if not settings.guidance_rescale:
        return guided
    # Of the clips that the velocities lead to (Lin et al. 2024, section 3.4), each over all of its numbers.
    plain, strong = points - time * towards, points - time * guided
    ratio = plain.std(dim=(1, 2), keepdim=True) / strong.std(dim=(1, 2), keepdim=True)
    share = settings.guidance_rescale
    return (points - strong * (share * ratio + 1 - share)) / time
