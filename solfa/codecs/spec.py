"""The text that names a codec: `HEAD` or `HEAD:key=value,key=value`, where HEAD is a name, a path or a Hub id.

Commas and percent signs in values are percent-escaped, so any path can be a value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from solfa.errors import ConfigError

_OPTIONS = re.compile(r"(?P<head>.+?):(?P<options>[A-Za-z_]\w*=[^,]*(,[A-Za-z_]\w*=[^,]*)*)", re.DOTALL)


@dataclass(frozen=True)
class CodecSpec:
    """A codec's head and its options, as text."""

    head: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.options:
            return self.head
        return f"{self.head}:" + ",".join(f"{key}={_escape(value)}" for key, value in self.options.items())


def parse_spec(text: str) -> CodecSpec:
    """Split a spec into head and options; a text that is an existing path is all head.

    >>> from solfa.codecs import parse_spec
    >>> parse_spec("encodec_24khz:num_codebooks=8")
    CodecSpec(head='encodec_24khz', options={'num_codebooks': '8'})
    """
    if not text.strip():
        raise ConfigError("codec: expected a name, a directory or a Hub id, found an empty name")
    if Path(text).expanduser().exists():
        return CodecSpec(text)
    for colon in reversed([place for place, character in enumerate(text) if character == ":"]):
        # A path may contain colons itself: the longest one that exists is the head.
        head, tail = text[:colon], text[colon + 1 :]
        if Path(head).expanduser().exists() and _OPTIONS.fullmatch(f"x:{tail}"):
            return CodecSpec(head, _options(tail, text))
    match = _OPTIONS.fullmatch(text)
    if match is not None:
        return CodecSpec(match["head"], _options(match["options"], text))
    if ":" in text:
        raise ConfigError(f"codec {text!r}: expected options as name:key=value,key=value after the colon")
    return CodecSpec(text)


def _options(text: str, spec: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in text.split(","):
        key, _, value = pair.partition("=")
        if key in options:
            raise ConfigError(f"codec {spec!r}: the option {key!r} is given twice")
        options[key] = unquote(value)
    return options


def _escape(value: str) -> str:
    return value.replace("%", "%25").replace(",", "%2C")
