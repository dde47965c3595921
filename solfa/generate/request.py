"""A request to a trained model: one clip with its length, its seed, its conditions and its prompt."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from jaxtyping import Int64
from torch import Tensor

from solfa.audio.channels import Audio
from solfa.audio.probe import probe
from solfa.audio.reader import read_span
from solfa.audio.recording import AudioInfo, Location
from solfa.config import parse_config
from solfa.environment.memory import expect_memory
from solfa.errors import AudioError, ConfigError
from solfa.files.digest import file_sha256
from solfa.models.conditioners.set import FOUND_IN_TEXT, TEXT_KINDS
from solfa.store.schema import ArraySpec

MAX_SEED = 2**63


@dataclass(frozen=True)
class Variation:
    """Another version of a recording.

    >>> from pathlib import Path
    >>> from solfa.generate import ClipRequest, Variation
    >>> softer = Variation(Path("audio/guitar.wav"), strength=0.4)
    >>> ClipRequest("other", seconds=3.0, seed=1, edit=softer).edit.strength
    0.4
    """

    file: Path
    strength: float = 0.6
    """How much of it may change: 0 is the recording itself, 1 is a clip that has nothing to do with it."""

    def __post_init__(self) -> None:
        if not (is_number(self.strength) and 0 <= self.strength <= 1):
            raise ConfigError(f"`strength`: expected a number from 0 to 1, found {self.strength!r}")


@dataclass(frozen=True)
class Inpainting:
    """A recording of which one stretch is made anew.

    >>> from pathlib import Path
    >>> from solfa.generate import ClipRequest, Inpainting
    >>> solo = Inpainting(Path("audio/guitar.wav"), start=1.0, stop=2.5)
    >>> ClipRequest("other", seconds=3.0, seed=1, edit=solo).edit.stop
    2.5
    """

    file: Path
    start: float
    stop: float
    """In seconds."""

    def __post_init__(self) -> None:
        if not (is_number(self.start) and is_number(self.stop) and 0 <= self.start < self.stop < math.inf):
            raise ConfigError(
                f"{self.file}: expected a stretch that begins at 0 or later and ends after that, found "
                f"{self.start!r} to {self.stop!r} seconds"
            )


@dataclass(frozen=True)
class ClipRequest:
    """One clip to generate; its draws depend on its seed alone.

    >>> from solfa.generate import ClipRequest
    >>> wanted = ClipRequest("piano", seconds=2.0, seed=7, text="a warm piano", conditions={"bpm": 120})
    >>> wanted.text, wanted.conditions
    ('a warm piano', {'bpm': 120})
    >>> ClipRequest("piano", seconds=-1.0, seed=7)
    Traceback (most recent call last):
    solfa.errors.ConfigError: clip 'piano': expected `seconds` above 0, found -1.0
    """

    name: str
    seconds: float
    seed: int
    text: str | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Other conditions by name."""
    prompt: Path | Int64[Tensor, "T K"] | None = None
    """What the clip starts with, a file or codes of the model's codec; it counts towards `seconds`."""
    prompt_seconds: float | None = None
    """How much of a file to use; None for all of it."""
    edit: Variation | Inpainting | None = None
    """Make it from a recording; for models of latents."""

    def __post_init__(self) -> None:
        where = f"clip {self.name!r}"
        for name, value in (("seconds", self.seconds), ("prompt_seconds", self.prompt_seconds)):
            if value is not None and not (is_number(value) and 0 < value < math.inf):
                raise ConfigError(f"{where}: expected `{name}` above 0, found {value!r}")
        if not is_whole(self.seed) or not 0 <= self.seed < MAX_SEED:
            raise ConfigError(f"{where}: expected a whole `seed` from 0 to {MAX_SEED - 1}, found {self.seed!r}")
        if self.text is not None and not isinstance(self.text, str):
            raise ConfigError(f"{where}: expected `text` to be words, found {self.text!r}")
        if not isinstance(self.prompt, Path) and self.prompt_seconds is not None:
            raise ConfigError(f"{where}: `prompt_seconds` needs a `prompt`, found none; add one, or leave it out")
        if self.edit is not None and self.prompt is not None:
            raise ConfigError(f"{where}: expected a `prompt` or a recording to change, found both; keep one")

    def file_facts(self) -> dict[str, str]:
        """Name the file that the clip starts with or is made from, and its hash."""
        if self.edit is not None:
            return {"edited_file": self.edit.file.name, "edited_sha256": file_sha256(self.edit.file)}
        if not isinstance(self.prompt, Path):
            return {}
        return {"prompt_file": self.prompt.name, "prompt_sha256": file_sha256(self.prompt)}


def is_number(value: object) -> bool:
    """Say whether a value is a real number, of Python or of numpy."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Say whether a value is an integer, of Python or of numpy."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def with_text(conditions: Mapping[str, Any], text: str | None, kinds: Mapping[str, str]) -> dict[str, Any]:
    """Put a text among the conditions, of which a model has `kinds`; exactly one of them must be for texts.

    A tempo or a key that is not among them is the one that the text names.
    """
    told = dict(conditions)
    if text is None:
        return told
    names = [name for name, kind in kinds.items() if kind in TEXT_KINDS]
    if len(names) != 1:
        known = ", ".join(kinds) or "nothing"
        raise ConfigError(
            f"`text`: expected a model with one text condition, found {len(names)} (it is conditioned on {known}); "
            "leave it out, or use `conditions`, by name"
        )
    if names[0] in told:
        raise ConfigError(f"`text`, `conditions`: {names[0]} is given by both; keep one")
    found = {name: text for name, kind in kinds.items() if kind in FOUND_IN_TEXT}
    return {**found, **told, names[0]: text}


def check_requests(requests: Sequence[ClipRequest], data_facts: Mapping[str, Any]) -> None:
    """Refuse clips that need more memory than there is, by what the model knew about its data."""
    spec = data_facts.get("array")
    if not requests or not isinstance(spec, Mapping):
        return
    seconds = max(request.seconds for request in requests)
    array = parse_config(ArraySpec, spec, "array")
    # As samples, and as the codes that these are decoded from.
    audio = 4 * seconds * array.sample_rate * array.num_channels
    codes = 8 * seconds * array.frame_rate * array.width
    expect_memory(int(audio + codes), f"`seconds`: a clip of {seconds:,.0f} s", "ask for fewer seconds")


def check_files(requests: Sequence[ClipRequest]) -> None:
    """Refuse prompts and recordings that cannot be read or have the wrong length, by their headers alone."""
    for request in {request.edit: request for request in requests if request.edit is not None}.values():
        edited_seconds(request)
    for request in {request.prompt: request for request in requests if isinstance(request.prompt, Path)}.values():
        with _named(request):
            _prompt_span(request)


def read_prompt(request: ClipRequest, sample_rate: int, num_channels: int) -> Audio:
    """Read the start of the prompt's file as a codec takes it, `[C, N]`."""
    with _named(request):
        location, info, num_samples = _prompt_span(request)
        return read_span(location, info, 0, num_samples, sample_rate, num_channels)


def edited_seconds(request: ClipRequest) -> float:
    """Look how long the recording is that a clip is made from; a stretch outside of it is refused."""
    assert request.edit is not None
    with _named(request):
        info = probe(Location(request.edit.file, format_hint=request.edit.file.suffix.lower()))
    seconds = info.num_samples / info.sample_rate
    if isinstance(request.edit, Inpainting) and request.edit.start >= min(seconds, request.seconds):
        raise ConfigError(
            f"{request.edit.file}: expected a stretch that begins within the clip's "
            f"{min(seconds, request.seconds):.2f} s, found {request.edit.start:g} s"
        )
    return seconds


def read_edited(request: ClipRequest, sample_rate: int, num_channels: int) -> Audio:
    """Read the recording that a clip is made from, as much of it as the clip is long, `[C, N]`."""
    assert request.edit is not None
    with _named(request):
        location = Location(request.edit.file, format_hint=request.edit.file.suffix.lower())
        info = probe(location)
        wanted = max(1, min(info.num_samples, round(request.seconds * info.sample_rate)))
        return read_span(location, info, 0, wanted, sample_rate, num_channels)


@contextmanager
def _named(request: ClipRequest) -> Iterator[None]:
    try:
        yield
    except AudioError as error:
        raise AudioError(f"{request.edit.file if request.edit else request.prompt}: {error}") from None


def _prompt_span(request: ClipRequest) -> tuple[Location, AudioInfo, int]:
    """Look at the prompt's file, and count the samples to use of it."""
    assert isinstance(request.prompt, Path)
    location = Location(request.prompt, format_hint=request.prompt.suffix.lower())
    info = probe(location)
    available = info.num_samples / info.sample_rate
    seconds = available if request.prompt_seconds is None else min(available, request.prompt_seconds)
    if seconds >= request.seconds:
        raise ConfigError(
            f"{request.prompt}: the prompt is {seconds:.2f} s long and counts towards the clip's "
            f"{request.seconds:.2f} s; ask for more `seconds`, or use less of the prompt with `prompt_seconds`"
        )
    return location, info, max(1, round(seconds * info.sample_rate))
