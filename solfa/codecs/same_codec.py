"""Say, without loading one, whether two texts name the same codec."""

from collections.abc import Mapping
from pathlib import Path

from solfa.codecs.catalogue import NAMES, WaveformClasses
from solfa.codecs.families.oobleck import OobleckOptions
from solfa.codecs.spec import CodecSpec, parse_spec

_OPEN = ("num_codebooks",)
"""Options whose default only the checkpoint knows."""


def is_same_codec(wanted: str, stored: str) -> bool:
    """Say whether a codec's text names the codec of a dataset.

    A dataset's text spells out every option. One that `wanted` leaves open must have its default; the number of
    codebooks, whose default only the checkpoint knows, may be any.
    """
    ours, theirs = parse_spec(wanted), parse_spec(stored)
    if theirs.head not in (ours.head, absolute_spec(wanted).head):
        return False
    given, known = _lowered(ours.options), _lowered(theirs.options)
    defaults = _defaults(theirs.head)
    for name in given.keys() | known.keys():
        there = known.get(name, defaults.get(name))
        if name in given and given[name] != there:
            return False
        if name not in given and name not in _OPEN and there != defaults.get(name):
            return False
    return True


def absolute_spec(text: str) -> CodecSpec:
    """Read a codec's text; a path in it becomes absolute, and so means the same everywhere."""
    spec = parse_spec(text)
    path = Path(spec.head).expanduser()
    return CodecSpec(str(path.absolute()), spec.options) if path.exists() else spec


def _defaults(head: str) -> dict[str, str]:
    """List the options that a codec has where nothing is said; those of other kinds of codecs do no harm."""
    named = NAMES.get(head)
    own = named.options() if isinstance(named, WaveformClasses) else OobleckOptions()
    return {"precision": "fp32", **_lowered({name: str(value) for name, value in own.model_dump().items()})}


def _lowered(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value.lower() for name, value in options.items()}
