"""Take Markdown pages apart: fenced blocks, commands, inline code and links.

A fence says how its block is used: ```python and ```console are run, ```json NAME (any other language with a file name)
is written to that file first, and `no-run` after the language leaves a block alone.
"""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
RUN_PAGES = [ROOT / "README.md", *DOCS]
ALL_PAGES = [*RUN_PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "RELEASING.md", "CHANGELOG.md"))]

MODEL, CODEC = "899630c8", "5eba57e0"
"""The experiments that pages and docstrings name: a language model that is told a caption, and a codec."""

_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    words: tuple[str, ...]
    """What follows the language on the fence."""
    body: str
    line: int
    """Line of the page on which the body begins."""

    @property
    def is_run(self) -> bool:
        return "no-run" not in self.words

    @property
    def file_name(self) -> str | None:
        named = [word for word in self.words if "." in word]
        return named[0] if named else None


@dataclass(frozen=True)
class Command:
    """One line after a `$` prompt, split as a shell splits it."""

    environment: dict[str, str]
    words: list[str]


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """List the fenced blocks of a page, in order."""
    found = []
    for match in _FENCE.finditer(text):
        language, *words = match["info"].split() or [""]
        found.append(Block(language, tuple(words), match["body"], text.count("\n", 0, match.start("body")) + 1))
    return found


def commands(body: str) -> list[Command]:
    """Read what is typed in a console block; lines without a prompt are output."""
    joined = body.replace("\\\n", " ")
    typed = [line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")]
    found = []
    for line in typed:
        words = shlex.split(line, comments=True)
        environment = {}
        while words and _ASSIGNMENT.fullmatch(words[0]):
            name, _, value = words.pop(0).partition("=")
            environment[name] = value
        found.append(Command(environment, words))
    return found


def without_blocks(text: str) -> str:
    """Leave only the prose."""
    return _FENCE.sub("", text)


def inline_code(text: str) -> list[str]:
    """List what stands between single backticks."""
    return _INLINE.findall(without_blocks(text))


def links(text: str) -> list[str]:
    """List the targets of all links."""
    return _LINK.findall(without_blocks(text))


def uses_experiments(code: str) -> bool:
    """Say whether some code needs these experiments, which take seconds to make, or makes new ones."""
    return any(word in code for word in (MODEL, CODEC, "solfa.train("))
