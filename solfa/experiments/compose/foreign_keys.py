"""Keys of other programs, answered with what to type here."""

from collections.abc import Callable, Iterable, Mapping

Answer = Callable[[str], str]
"""Says what to type instead of a key with that value."""


def renamed(key: str) -> Answer:
    """Answer with the same value for another key."""
    return lambda value: f"{key}={value}"


ADAPTER_SCRIPTS: Mapping[str, Answer] = {"use_pre_encoded": renamed("dset.train.use_pre_encoded")}
"""Keys of the scripts that train adapters on MusicCaps."""


def answer_keys(known: Mapping[str, Answer], overrides: Iterable[str]) -> list[str]:
    """Answer each override whose key is a known one."""
    found = [(text, *text.lstrip("+").partition("=")) for text in overrides]
    return [f"{text}: here it is {known[key](value)}" for text, key, _, value in found if key in known]
