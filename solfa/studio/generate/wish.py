"""What somebody asks of a model: read from a form, kept as JSON, and spelled as the command that does the same."""

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import yaml  # type: ignore[import-untyped]
from pydantic import Field

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.generate.request import ClipRequest, Inpainting, Variation, edited_seconds
from solfa.generate.takes import takes_of

DEFAULT_SECONDS = 10.0
AudioFormat = Literal["wav", "flac", "ogg"]
FLAGS = {"guidance_scale": "--guidance"}
"""Settings whose flags are not their names."""


class Asked(Config):
    """One wish: which model, what, and how; None leaves something to the model, as the command line does."""

    model: str
    """Its signature, or its folder."""
    epoch: int | None = None
    """The epoch whose weights draw; None for the best."""
    text: str | None = None
    conditions: dict[str, Any] = Field(default_factory=dict)
    seconds: float | None = None
    num: int = 1
    seed: int = 0
    prompt: Path | None = None
    prompt_seconds: float | None = None
    init: Path | None = None
    strength: float | None = None
    inpaint: Path | None = None
    inpaint_from: float | None = None
    inpaint_to: float | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    audio_format: AudioFormat = "wav"

    @property
    def recording(self) -> Path | None:
        """The recording that the clips go on from, or change."""
        return self.prompt or self.init or self.inpaint

    def requests(self) -> list[ClipRequest]:
        """Make the requests that `solfa generate` would make."""
        edit: Variation | Inpainting | None = None
        if self.init is not None:
            edit = Variation(self.init) if self.strength is None else Variation(self.init, self.strength)
        elif self.inpaint is not None:
            if self.inpaint_from is None or self.inpaint_to is None:
                raise ConfigError("from, to: expected where the stretch begins and ends; drag over the spectrogram")
            edit = Inpainting(self.inpaint, self.inpaint_from, self.inpaint_to)
        length = DEFAULT_SECONDS if self.seconds is None else self.seconds
        wanted = ClipRequest(
            "clip", length, self.seed, self.text, self.conditions, self.prompt, self.prompt_seconds, edit
        )
        if edit is not None and self.seconds is None:
            wanted = replace(wanted, seconds=edited_seconds(wanted))
        return takes_of(wanted, self.num)

    def command(self) -> str:
        """Spell the command that writes the same clips, without where to."""
        return shlex.join(["solfa", "generate", *self.arguments()])

    def arguments(self) -> list[str]:
        """List the arguments of `solfa generate`."""
        plain = {
            "--epoch": self.epoch,
            "--text": self.text,
            "--seconds": self.seconds,
            "--num": None if self.num == 1 else self.num,
            "--seed": self.seed or None,
            "--prompt": self.prompt,
            "--prompt-seconds": self.prompt_seconds,
            "--init": self.init,
            "--strength": self.strength,
            "--inpaint": self.inpaint,
            "--from": self.inpaint_from,
            "--to": self.inpaint_to,
            "--format": None if self.audio_format == "wav" else self.audio_format,
        }
        words = [self.model]
        for flag, value in plain.items():
            words += [] if value is None else _flag(flag, value)
        for name, value in self.conditions.items():
            words += ["--set", f"{name}={_yaml(value)}"]
        for name, value in self.options.items():
            flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
            words += [flag] if value is True else _flag(flag, value)
        return words


def _flag(flag: str, value: object) -> list[str]:
    text = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _yaml(value: Any) -> str:
    """Spell a value so that `--set` reads the same one."""
    if isinstance(value, str):
        try:
            is_plain = yaml.safe_load(value) == value
        except yaml.YAMLError:
            is_plain = False
        return value if is_plain else json.dumps(value)
    return json.dumps(value)


def read_number(values: Mapping[str, Any], name: str, words: str, *, whole: bool = False) -> Any:
    """Read a number from a form; None if the field is empty."""
    text = str(values.get(name) or "").strip()
    if not text:
        return None
    try:
        number: float = int(text)
    except ValueError:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
    if not math.isfinite(number) or (whole and not isinstance(number, int)):
        raise ConfigError(f"{words}: expected a {'whole ' if whole else ''}number, found {text!r}")
    return number
