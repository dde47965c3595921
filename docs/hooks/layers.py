"""The layers of the package, taken from the contract in pyproject.toml that import-linter holds.

    python docs/hooks/layers.py        writes them into CONTRIBUTING.md, between its two marks

The site shows the same as a diagram. What a package is for is the first line of its docstring.
"""

import html
import re
import textwrap
import tomllib
from pathlib import Path

from public_surface import ROOT, first_line

BEGIN, END = "<!-- layers: written by `make layers` -->", "<!-- end of layers -->"
WIDTH = 118


def read_layers(pyproject: str) -> list[list[str]]:
    """List the packages of each layer, the highest layer first."""
    [contract] = tomllib.loads(pyproject)["tool"]["importlinter"]["contracts"]
    return [[name.strip() for name in line.split("|")] for line in contract["layers"]]


def layers() -> list[list[str]]:
    """Read the layers of this project."""
    return read_layers((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def as_text(found: list[list[str]]) -> str:
    """Number the layers from the bottom, a line per package."""
    column = max(len(name) for layer in found for name in layer) + 6
    lines = []
    for number, layer in zip(range(len(found), 0, -1), found, strict=True):
        for index, name in enumerate(layer):
            start = f"{number if index == 0 else '':>2}  {name}".ljust(column)
            purpose = first_line(f"solfa.{name}").rstrip(".")
            lines += textwrap.wrap(start + purpose, WIDTH, subsequent_indent=" " * column, drop_whitespace=True)
    return "\n".join(lines)


def with_layers(page: str, content: str) -> str:
    """Put something between the marks of a page."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"expected the marks {BEGIN!r} and {END!r}, found no such pair")
    return f"{before}{BEGIN}\n\n{content}\n\n{END}{after}"


def documented(page: str) -> str:
    """Write the layers into a page as GitHub shows it."""
    return with_layers(page, f"```text\n{as_text(layers())}\n```")


def as_diagram(found: list[list[str]], pages: dict[str, str]) -> str:
    """Draw the layers as boxes; `pages` says where the API page of a module is."""
    rows = []
    for number, layer in zip(range(len(found), 0, -1), found, strict=True):
        boxes = "".join(_box(name, pages.get(f"solfa.{name}")) for name in layer)
        rows.append(f'<div class="layer"><span class="number">{number}</span><div class="boxes">{boxes}</div></div>')
    return f'<div class="layers">{"".join(rows)}</div>'


def _box(name: str, page: str | None) -> str:
    purpose = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(first_line(f"solfa.{name}").rstrip(".")))
    inside = f"<b>{name}</b><span>{purpose}</span>"
    return f'<a class="box" href="{page}">{inside}</a>' if page else f'<span class="box">{inside}</span>'


def main() -> None:
    """Rewrite CONTRIBUTING.md."""
    path: Path = ROOT / "CONTRIBUTING.md"
    path.write_text(documented(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
