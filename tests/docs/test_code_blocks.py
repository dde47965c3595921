"""The code of README.md and docs/ runs: the blocks of a page one after another, in one folder and one namespace."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pages import RUN_PAGES, Block, blocks, commands, page_name, uses_experiments

from solfa.cli.main import main

MAKE_THEIR_DATASET = {"README.md", "docs/quickstart.md"}
"""Pages that encode `music.solfa` themselves; the others begin with it."""


Run = Callable[[Block], None]


def run_solfa(words: list[str], where: str, capsys: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch) -> None:
    assert words[:1] == ["solfa"], f"{where}: {words} is not a solfa command; mark the block no-run"
    patch.setattr(sys, "argv", words)
    code: Any = 0
    try:
        main()
    except SystemExit as leaving:
        code = leaving.code
    captured = capsys.readouterr()
    assert not code, f"{where}: {' '.join(words)} exits with {code}\n{captured.out}{captured.err}"


def run_console(block: Block, page: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = commands(block.body)
    assert found, f"{page}, line {block.line}: a console block without a `$` prompt runs nothing"
    for command in found:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in command.environment.items():
                patch.setenv(name, value)
            run_solfa(command.words, f"{page}, line {block.line}", capsys, patch)


def run_python(block: Block, page: str, namespace: dict[str, Any]) -> None:
    # The empty lines make tracebacks name the line of the page.
    exec(compile("\n" * (block.line - 1) + block.body, page, "exec"), namespace)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow, pytest.mark.pages]) for page in RUN_PAGES],
    ids=page_name,
)
def test_the_code_of_a_page_runs(
    page: Path,
    page_folder: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    name = page_name(page)
    run = [block for block in blocks(page.read_text(encoding="utf-8")) if block.is_run]
    if uses_experiments("".join(block.body for block in run)):
        request.getfixturevalue("experiments")
    if name in MAKE_THEIR_DATASET:
        shutil.rmtree(page_folder / "music.solfa")
    monkeypatch.chdir(page_folder)
    monkeypatch.setenv("COLUMNS", "200")
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in run:
        if block.file_name is not None:
            file = Path(block.file_name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.body, encoding="utf-8")
        elif block.language == "python":
            run_python(block, name, namespace)
        elif block.language == "console":
            run_console(block, name, capsys)


@pytest.mark.parametrize("page", RUN_PAGES, ids=page_name)
def test_every_block_says_what_it_is(page: Path) -> None:
    known = {"python", "console", "text", "json", "jsonl", "csv", "yaml", "bash", "make"}
    for block in blocks(page.read_text(encoding="utf-8")):
        assert block.language in known, f"{page_name(page)}, line {block.line}: {block.language!r}"


def test_a_block_that_fails_is_reported_with_its_page_and_line(capsys: pytest.CaptureFixture[str]) -> None:
    text = "# Page\n\n```python\nx = 1\nraise ValueError(x)\n```\n\n```console\n$ solfa status nowhere\n```\n"
    python, console = blocks(text)
    with pytest.raises(ValueError) as fault:
        run_python(python, "page.md", {})
    assert fault.traceback[-1].lineno + 1 == 5
    with pytest.raises(AssertionError, match=r"page.md, line 9: solfa status nowhere exits with 2"):
        run_console(console, "page.md", capsys)
