"""What a person asks a trained experiment for, before the task turns it into its own terms."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solfa.audio.channels import Audio
from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.recording import Location
from solfa.errors import AudioError, ConfigError

MAX_SEED = 2**63


@dataclass(frozen=True)
class AudioRequest:
    """One clip to generate."""

    name: str
    seconds: float
    seed: int
    text: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """Other conditions by the names that the experiment gives them."""
    prompt: Path | None = None
    """Audio to begin with; it counts towards the seconds."""
    prompt_seconds: float | None = None
    """How much of it; None for all."""

    def __post_init__(self) -> None:
        for name, value in (("seconds", self.seconds), ("prompt_seconds", self.prompt_seconds)):
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"clip {self.name!r}: expected {name} above 0, found {value:g}")
        if not 0 <= self.seed < MAX_SEED:
            raise ConfigError(f"clip {self.name!r}: expected a seed from 0 to {MAX_SEED - 1}, found {self.seed}")
        if self.prompt is None and self.prompt_seconds is not None:
            raise ConfigError(f"clip {self.name!r}: prompt_seconds says how much of a prompt, found no prompt")


def read_prompt(request: AudioRequest, sample_rate: int, num_channels: int) -> Audio:
    """Read the beginning of the prompt in the form of a codec, `[C, N]`."""
    try:
        return _read_prompt(request, sample_rate, num_channels)
    except AudioError as error:
        raise AudioError(f"{request.prompt}: {error}") from None


def _read_prompt(request: AudioRequest, sample_rate: int, num_channels: int) -> Audio:
    assert request.prompt is not None
    location = Location(request.prompt, format_hint=request.prompt.suffix.lower())
    info = probe(location)
    available = info.num_samples / info.sample_rate
    seconds = available if request.prompt_seconds is None else min(available, request.prompt_seconds)
    if seconds >= request.seconds:
        raise ConfigError(
            f"{request.prompt}: the prompt is {seconds:.2f} s and counts towards the clip, which is to have "
            f"{request.seconds:.2f} s; ask for more seconds, or use less of it with --prompt-seconds"
        )
    num_samples = max(1, round(seconds * info.sample_rate))
    return read_span(location, info, 0, num_samples, sample_rate, num_channels)
