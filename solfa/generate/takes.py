"""Several takes of one request: each with a name of its own, and with a seed that counts up."""

from dataclasses import replace

from solfa.generate.request import ClipRequest

NAMING_WORDS = 6
"""How many words of a text the name of its clips begins with."""


def takes_of(wanted: ClipRequest, num: int) -> list[ClipRequest]:
    """Ask for `num` clips that differ in their seeds, named after the text.

    >>> from solfa.generate.request import ClipRequest
    >>> from solfa.generate.takes import takes_of
    >>> [(take.name, take.seed) for take in takes_of(ClipRequest("clip", 2.0, 7, text="A warm piano!"), 2)]
    [('a-warm-piano-000', 7), ('a-warm-piano-001', 8)]
    """
    stem = "-".join(_words(wanted.text or "clip")[:NAMING_WORDS])
    return [replace(wanted, name=f"{stem}-{index:03d}", seed=wanted.seed + index) for index in range(num)]


def _words(text: str) -> list[str]:
    kept = "".join(letter if letter.isalnum() else " " for letter in text.lower())
    return kept.split() or ["clip"]
