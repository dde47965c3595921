"""The size of a flow model: one of two networks of diffusers, its objective, and what it is told about time."""

import math
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, PositiveFloat, model_validator

from solfa.config import Config
from solfa.ops.noise_paths import Objective

Timing = Literal["seconds_start", "seconds_total"]
"""Where a crop begins in its clip, and how long the whole clip is."""


class UniformTimes(Config):
    """Every time is equally likely in training."""

    kind: Literal["uniform"] = "uniform"


class LogitNormalTimes(Config):
    """The logit of the time is normal: more training where noise and data are about equal."""

    kind: Literal["logit_normal"]
    mean: float = 0.0
    std: float = Field(default=1.0, gt=0)


class LogSnrTimes(Config):
    """The logarithm of the ratio of data to noise, in power, is uniform."""

    kind: Literal["log_snr"]
    min: float = -6.2
    max: float = 2.0

    @model_validator(mode="after")
    def _has_a_range(self) -> "LogSnrTimes":
        if not self.min < self.max:
            raise ValueError(f"expected min below max, found {self.min:g} and {self.max:g}")
        return self


TimeDraw: TypeAlias = Annotated[UniformTimes | LogitNormalTimes | LogSnrTimes, Field(discriminator="kind")]


class LengthShift(Config):
    """A shift of times that grows with the length of a clip: its logarithm is linear in the number of frames."""

    min_frames: int = Field(default=256, ge=1)
    max_frames: int = Field(default=4096, ge=2)
    min_shift: float = Field(default=1.65, gt=0)
    """For clips of `min_frames` or fewer."""
    max_shift: float = Field(default=3.16, gt=0)
    """For clips of `max_frames` or more."""

    @model_validator(mode="after")
    def _has_a_range(self) -> "LengthShift":
        if not self.min_frames < self.max_frames:
            raise ValueError(f"expected min_frames below max_frames, found {self.min_frames} and {self.max_frames}")
        return self

    def at(self, num_frames: int) -> float:
        """Return the shift for a clip of some length."""
        along = (min(max(num_frames, self.min_frames), self.max_frames) - self.min_frames) / (
            self.max_frames - self.min_frames
        )
        return math.exp((1 - along) * math.log(self.min_shift) + along * math.log(self.max_shift))


class _NetworkConfig(Config):
    dim: int = Field(ge=8)
    num_layers: int = Field(ge=1)
    num_heads: int = Field(ge=1)
    cond_dim: int = Field(default=256, ge=2, multiple_of=2)
    """The width of conditions before the network projects them."""
    timing: tuple[Timing, ...] = ("seconds_start", "seconds_total")
    max_seconds: float = Field(default=384.0, gt=0)
    """Times above this are told as this."""
    times: TimeDraw = UniformTimes()
    """How times are drawn in training."""
    time_shift: PositiveFloat | LengthShift = 1.0
    """Above 1, more of training and of generation is spent near noise, which long clips need."""
    normalise: bool = True
    """Bring every channel to the mean 0 and standard deviation 1 of the training data; published networks do not."""
    context_tokens: int | None = Field(default=None, ge=1)
    """Fill up the conditions to so many tokens, all of which are attended to, as published networks are trained.

    None masks what is not there. With a number, a clip without any condition has a context of zeros, timing included.
    """

    def shift_at(self, num_frames: int) -> float:
        """Return how far the times of a clip of some length are shifted."""
        return self.time_shift.at(num_frames) if isinstance(self.time_shift, LengthShift) else self.time_shift

    @model_validator(mode="after")
    def _heads_fit(self) -> "_NetworkConfig":
        if self.dim % self.num_heads or (self.dim // self.num_heads) % 4:
            raise ValueError(
                f"expected dim / num_heads to be a multiple of 4, found {self.dim} and {self.num_heads} heads"
            )
        if len({*self.timing}) != len(self.timing):
            raise ValueError("timing: each name at most once")
        return self


class StableAudio3Config(_NetworkConfig):
    """The network of Stable Audio 3: conditions scale and shift every layer, and a clip can be inpainted."""

    kind: Literal["stable_audio_3"]
    objective: Objective = "rectified_flow"
    num_memory_tokens: int = Field(default=64, ge=0)
    differential: bool = True
    """The difference of two attentions, in every layer."""
    ffn_ratio: float = Field(default=4.0, gt=0)
    norm_eps: float = Field(default=1e-6, gt=0)
    """What the norms of the layers add to a variance: 1e-6 in diffusers, 1e-5 by default in stable-audio-3."""


class StableAudioOpenConfig(_NetworkConfig):
    """The network of Stable Audio Open: conditions are one more place in the sequence."""

    kind: Literal["stable_audio_open"]
    objective: Objective = "v"
    num_kv_heads: int = Field(ge=1)
    cross_dim: int | None = Field(default=None, ge=1)
    """The width of conditions in the layers; None is `cond_dim`."""

    @model_validator(mode="after")
    def _groups_fit(self) -> "StableAudioOpenConfig":
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"expected num_heads to be a multiple of num_kv_heads, found {self.num_heads} and {self.num_kv_heads}"
            )
        return self


FlowModelConfig: TypeAlias = Annotated[StableAudio3Config | StableAudioOpenConfig, Field(discriminator="kind")]
