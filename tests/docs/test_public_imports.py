"""Pages and recipes use public names only, in code and in prose: what lies below a package may move."""

import re
from pathlib import Path

import pytest
from pages import ALL_PAGES, ROOT, blocks, inline_code, page_name

from tests.public_names import PUBLIC, Imported, imported_names

RELEASE_TOOLS = {*(ROOT / "recipes").glob("*/publish.py"), ROOT / "recipes/tiny_music/follow_codec.py"}
"""They write what a release of Solfa itself consists of, and so reach inside."""
RECIPES = sorted({*(ROOT / "recipes").rglob("*.py")} - RELEASE_TOOLS)

_DOTTED = re.compile(r"solfa(\.\w+)+")


def private(names: list[Imported]) -> list[str]:
    return [f"{one.module}.{one.name}" for one in names if not one.is_public]


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_name)
def test_code_of_a_page_imports_public_names_only(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            assert private([*imported_names(block.body)]) == [], f"{page_name(page)}, line {block.line}"


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_name)
def test_prose_of_a_page_names_public_names_only(page: Path) -> None:
    dotted = [match[0] for code in inline_code(page.read_text(encoding="utf-8")) if (match := _DOTTED.match(code))]
    named = [Imported(*name.rsplit(".", 1)) for name in dotted if name not in PUBLIC]
    assert private(named) == [], page_name(page)


@pytest.mark.parametrize("recipe", RECIPES, ids=page_name)
def test_a_recipe_imports_public_names_only(recipe: Path) -> None:
    assert private([*imported_names(recipe.read_text(encoding="utf-8"))]) == []
