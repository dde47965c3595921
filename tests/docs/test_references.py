"""What the pages refer to exists: files, anchors, commands, flags, codecs and columns."""

import re
import shlex
from fnmatch import fnmatch
from pathlib import Path

import pytest
import typer
import yaml
from pages import ALL_PAGES, DOCS, ROOT, Command, blocks, commands, inline_code, links, page_name

from solfa.cli.main import app
from solfa.codecs.catalogue import NAMES
from solfa.store.plan_file import PLAN_SCHEMA
from solfa.store.schema import META_SCHEMA

FLAGS = {
    name: {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    | {"--help", "-h"}
    for name, command in typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
}


def solfa_words(command: Command) -> list[str]:
    """Leave out what stands before `solfa`, such as a launcher, and what stands after a `&` or a pipe."""
    if "solfa" not in command.words:
        return []
    words = command.words[command.words.index("solfa") + 1 :]
    ends = [words.index(word) for word in ("&", "&&", "|", ";") if word in words]
    return words[: min(ends, default=len(words))]


def typed_commands(text: str) -> list[list[str]]:
    """List all `solfa` commands of a page: after prompts, and in inline code."""
    typed = [command for block in blocks(text) if block.language == "console" for command in commands(block.body)]
    inline = [Command({}, shlex.split(code)) for code in inline_code(text) if code.startswith("solfa ")]
    return [words for command in (*typed, *inline) if (words := solfa_words(command))]


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_name)
def test_commands_and_flags_exist(page: Path) -> None:
    for words in typed_commands(page.read_text(encoding="utf-8")):
        if words[0] in ("--help", "--version"):
            continue
        assert words[0] in FLAGS, f"{page_name(page)}: solfa {words[0]}"
        used = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
        assert used <= FLAGS[words[0]], f"{page_name(page)}: solfa {' '.join(words)}"


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_name)
def test_flags_in_prose_exist(page: Path) -> None:
    known = set().union(*FLAGS.values())
    for code in inline_code(page.read_text(encoding="utf-8")):
        if code.startswith("--"):
            assert code.split()[0] in known, f"{page_name(page)}: `{code}`"


def anchor(heading: str) -> str:
    """Spell a heading as GitHub's anchor."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    for target in links(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page_name(page)}: {target}"
        if fragment:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert fragment in {anchor(heading) for heading in headings}, f"{page_name(page)}: {target}"


def test_every_command_is_documented() -> None:
    shown = {words[0] for page in ALL_PAGES for words in typed_commands(page.read_text(encoding="utf-8"))}
    assert shown >= FLAGS.keys()


def linked_pages(page: Path) -> set[Path]:
    targets = links(page.read_text(encoding="utf-8"))
    return {(page.parent / target.partition("#")[0]).resolve() for target in targets}


def test_every_page_is_linked_from_the_readme_or_from_the_page_of_its_folder() -> None:
    inner = {page for page in DOCS if page.parent != ROOT / "docs"}
    assert {page.resolve() for page in ALL_PAGES} - {ROOT / "README.md"} - inner <= linked_pages(ROOT / "README.md")
    assert [page_name(page) for page in inner if page not in linked_pages(page.parent.with_suffix(".md"))] == []


def test_no_two_pages_have_the_same_file_name() -> None:
    assert len({page.name for page in DOCS}) == len(DOCS)


@pytest.mark.parametrize("page", ALL_PAGES, ids=page_name)
def test_paths_in_prose_exist(page: Path) -> None:
    for code in inline_code(page.read_text(encoding="utf-8")):
        if re.fullmatch(r"(solfa|tests|docs|benchmarks|recipes)/[\w./-]+", code) and not re.search("[A-Z]{4}", code):
            assert (ROOT / code).exists(), f"{page_name(page)}: `{code}`"


@pytest.mark.parametrize("page", DOCS, ids=page_name)
def test_every_page_ends_with_where_to_read_on(page: Path) -> None:
    last = page.read_text(encoding="utf-8").rpartition("\n## ")[2]
    assert last.startswith("Next\n") and links(last)


@pytest.mark.parametrize("group", ["solver", "model", "dset", "conditioner", "adapter", "experiment"])
def test_every_choice_of_a_group_is_in_the_table_of_settings(group: str) -> None:
    page = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    [row] = re.findall(rf"^\| `{group}` \| (.*) \|$", page, re.MULTILINE)
    shown, folder = re.findall("`([^`]+)`", row), ROOT / "solfa/conf" / group
    choices = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.yaml")} - {"standard"}
    assert [choice for choice in choices if not any(fnmatch(choice, pattern) for pattern in shown)] == []
    assert [pattern for pattern in shown if not any(fnmatch(choice, pattern) for choice in choices)] == []


def test_every_setting_that_does_not_count_for_the_signature_is_listed() -> None:
    page = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    listed = set(inline_code(page.partition("Some settings do not count")[2].partition("\n\n")[0]))
    excluded = yaml.safe_load((ROOT / "solfa/conf/config.yaml").read_text(encoding="utf-8"))["dora"]["exclude"]
    assert listed == {name.removeprefix("*").removesuffix(".*") for name in excluded}


def test_every_codec_is_in_the_table() -> None:
    table = (ROOT / "docs/codecs.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"| `{name}` |" not in table] == []


def test_every_column_is_in_the_description_of_the_format() -> None:
    described = set(inline_code((ROOT / "docs/store_format.md").read_text(encoding="utf-8")))
    assert {*META_SCHEMA.names, *PLAN_SCHEMA.names} - described == set()


def test_commands_are_found_wherever_they_are_typed() -> None:
    typed = "$ RANK=0 torchrun --no-python solfa encode \\\n  a b &\n"
    text = f"Use `solfa gc X --dry-run`.\n\n```console no-run\n{typed}```\n"
    assert typed_commands(text) == [["encode", "a", "b"], ["gc", "X", "--dry-run"]]
