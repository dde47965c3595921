"""What is said in recordings of speech: the texts of the packages, and the phrases between a speaker's pauses."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_PROMPT = re.compile(r"([^;:\s][^:]*):\s*(.*\S)")
_NOT_SAID = re.compile(r"[(\[<][^)\]>]*[)\]>]")
_SENTENCE = re.compile(r'\(\s*(\S+)\s+"(.*)"\s*\)')
_PHRASE = re.compile(r"[^,.!?:;]*\w[^,.!?:;]*")
_SILENT_LETTERS = "ьъ"
PHONES_PER_LETTER = (0.7, 1.5)
"""Russian writes about one letter for a sound; a phrase outside of this was paused at another place than its comma."""
PAUSE = "pau"


class Span(NamedTuple):
    """A part of a recording, in seconds."""

    start: float
    stop: float


@dataclass(frozen=True)
class Phrase:
    """What is spoken without a pause."""

    span: Span
    num_phones: int


@dataclass(frozen=True)
class Chunk:
    """Consecutive phrases, and their text if it is known."""

    span: Span
    text: str | None


def parse_prompts(content: str) -> dict[str, str]:
    """Read lines of `name: text`; those that begin with a semicolon are remarks."""
    found = [_PROMPT.match(line) for line in content.splitlines()]
    return {match[1]: match[2] for match in found if match}


def spoken_part(text: str) -> str:
    """Take what is said: nothing in brackets, and no dots that stand for a number before or after."""
    return " ".join(_NOT_SAID.sub(" ", text).split()).strip(" .").removesuffix(":")


def described_sound(text: str) -> str:
    """Read the description of a prompt that is no speech: `[this is a simple beep tone]`."""
    words = text.strip("[]<>() ").lower().replace("decending", "descending")
    return words.removeprefix("this is ").removeprefix("sound of ").removeprefix("an ").removeprefix("a ")


def parse_sentences(content: str) -> dict[str, str]:
    """Read Festival's lines of `( name "text" )`, without the marks that show where the stress is."""
    return {match[1]: match[2].replace("+", "") for match in _SENTENCE.finditer(content)}


def parse_phrases(content: str) -> list[Phrase]:
    """Read a label file, whose lines say where a phone ends, a number, and its name."""
    rows = [row for line in content.splitlines() if len(row := line.split()) == 3]
    phrases: list[Phrase] = []
    begin, num_phones, before = 0.0, 0, 0.0
    for end, _, phone in rows:
        if phone == PAUSE:
            if num_phones:
                phrases.append(Phrase(Span(begin, before), num_phones))
            num_phones = 0
        else:
            begin = begin if num_phones else before
            num_phones += 1
        before = float(end)
    return [*phrases, Phrase(Span(begin, before), num_phones)] if num_phones else phrases


def aligned_texts(text: str, phrases: Sequence[Phrase]) -> list[tuple[int, int]] | None:
    """Find where the text of each phrase begins and ends, if the speaker paused where the text has commas."""
    parts = [match.span() for match in _PHRASE.finditer(text)]
    if len(parts) != len(phrases):
        return None
    low, high = PHONES_PER_LETTER
    for (begin, end), phrase in zip(parts, phrases, strict=True):
        letters = sum(letter.isalpha() and letter not in _SILENT_LETTERS for letter in text[begin:end].lower())
        if not low * letters <= phrase.num_phones <= high * letters:
            return None
    return parts


def chunks_of(text: str, phrases: Sequence[Phrase], max_seconds: float) -> list[Chunk]:
    """Join phrases to chunks as long as allowed, with their text; without an alignment take the first chunk alone."""
    parts = aligned_texts(text, phrases)
    groups = list(_grouped(phrases, max_seconds))
    if parts is None:
        return [Chunk(_joined(phrases, group), None) for group in groups[:1]]
    return [
        Chunk(_joined(phrases, group), text[parts[group[0]][0] : parts[group[-1]][1]].strip(" -")) for group in groups
    ]


def _joined(phrases: Sequence[Phrase], group: Sequence[int]) -> Span:
    return Span(phrases[group[0]].span.start, phrases[group[-1]].span.stop)


def _grouped(phrases: Sequence[Phrase], max_seconds: float) -> Iterable[list[int]]:
    """Group consecutive phrases greedily; one that is too long on its own is left out."""
    group: list[int] = []
    for number, phrase in enumerate(phrases):
        if group and phrase.span.stop - phrases[group[0]].span.start > max_seconds:
            yield group
            group = []
        if phrase.span.stop - phrase.span.start <= max_seconds:
            group.append(number)
        elif group:
            yield group
            group = []
    if group:
        yield group
