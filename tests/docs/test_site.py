"""What the hooks of the site make of the repository's files. `make docs` builds the site itself, strictly."""

import re

import pytest
import yaml
from pages import DOCS, ROOT

from tests.public_names import PUBLIC

from layers import BEGIN, END, as_text, documented, layers, read_layers, with_layers  # isort: skip
from offline import outside_requests  # isort: skip
from pages_of_site import OUTSIDE, outside_fences, plain_fences, site_links  # isort: skip
from reference import described_in, home, index_page, module_page  # isort: skip

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def nav_pages(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    inner = entry.values() if isinstance(entry, dict) else entry
    assert isinstance(inner, list) or isinstance(entry, dict)
    return [page for part in inner for page in nav_pages(part)]


def test_every_page_is_in_one_of_four_groups() -> None:
    assert [group for entry in SITE["nav"] for group in entry] == ["Start", "Data", "Train", "Reference"]
    pages = nav_pages(SITE["nav"])
    assert len(pages) == len(set(pages))
    docs = {path.relative_to(ROOT / "docs").as_posix() for path in DOCS}
    assert set(pages) == docs | set(OUTSIDE.values()) | {"reference/"}


def test_contributing_shows_the_layers_of_the_contract() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert documented(page) == page, "run `make layers`"
    block = page.partition(BEGIN)[2].partition(END)[0]
    listed = re.findall(r"^[ \d]{2}  (\w+) ", block, re.MULTILINE)
    assert listed == [name for layer in layers() for name in layer]


def test_layers_are_numbered_from_the_bottom() -> None:
    contract = '[[tool.importlinter.contracts]]\nlayers = ["data", "models | store", "errors"]\n'
    found = read_layers(contract)
    assert found == [["data"], ["models", "store"], ["errors"]]
    assert [line.split()[:2] for line in as_text(found).splitlines() if line[:2].strip()] == [
        ["3", "data"],
        ["2", "models"],
        ["1", "errors"],
    ]


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="marks"):
        with_layers("# Contributing\n", "x")


@pytest.mark.parametrize(
    ("source", "target", "on_the_site"),
    [
        ("README.md", "docs/codecs.md#loading", "codecs.md#loading"),
        ("README.md", "LICENSE", "license.md"),
        ("docs/codecs.md", "../CONTRIBUTING.md#add-a-codec", "contributing.md#add-a-codec"),
        ("docs/codecs.md", "encoding.md", "encoding.md"),
        ("docs/codecs.md", "#loading", "#loading"),
        ("docs/codecs.md", "benchmarks/loading.md#reading", "benchmarks/loading.md#reading"),
        ("docs/benchmarks/loading.md", "../codecs.md", "../codecs.md"),
        ("docs/benchmarks/loading.md", "../images/a.svg", "../images/a.svg"),
        ("docs/benchmarks/loading.md", "../../recipes/mot_captions/README.md", "../recipes/mot_captions.md"),
        ("docs/codecs.md", "../recipes/mot_captions", "recipes/mot_captions.md"),
        ("docs/codecs.md", "https://arxiv.org/abs/1", "https://arxiv.org/abs/1"),
        ("recipes/mot_captions/README.md", "../../docs/codecs.md", "../codecs.md"),
        ("docs/codecs.md", "../benchmarks/read_speed.py", "https://example.org/x/blob/main/benchmarks/read_speed.py"),
    ],
)
def test_links_lead_to_pages_or_into_the_repository(source: str, target: str, on_the_site: str) -> None:
    assert site_links(f"[a]({target})", source, "https://example.org/x/") == f"[a]({on_the_site})"


def test_without_a_repository_a_link_into_it_is_only_its_text() -> None:
    assert site_links("see [the script](../benchmarks/read_speed.py)", "docs/x.md", None) == "see the script"


def test_fences_lose_what_only_tests_read() -> None:
    page = "```console no-run\n$ a [b](c.md)\n```\n```csv tracks.csv\nx\n```\n"
    plain = plain_fences(page)
    assert plain == '```console\n$ a [b](c.md)\n```\n```csv title="tracks.csv"\nx\n```\n'
    assert outside_fences(f"[b](c.md)\n{plain}", lambda text: text.replace("c.md", "d.md")) == f"[b](d.md)\n{plain}"


def test_every_public_name_is_described_once_and_linked_elsewhere() -> None:
    described = described_in(PUBLIC)
    assert described["solfa.store.dataset", "open_dataset"] == "solfa"
    pages = {module: module_page(module, names, described) for module, names in PUBLIC.items()}
    assert "::: solfa.open_dataset\n" in pages["solfa"] and "::: solfa.store.open_dataset" not in pages["solfa.store"]
    assert "[solfa](solfa.md#solfa.open_dataset)" in pages["solfa.store"]
    wanted = {(home(module, name), name) for module, names in PUBLIC.items() for name in names} - {
        ("solfa", "__version__")
    }
    directives = re.findall(r"^::: (.+)\.(\w+)$", "\n".join(pages.values()), re.MULTILINE)
    assert ("solfa.train", "train") in directives and ("solfa", "train") not in directives
    assert sorted((home(module, name), name) for module, name in directives) == sorted(wanted)
    assert all(f"[{module}]({module}.md)" in index_page(PUBLIC) for module in PUBLIC)


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ('<a href="https://example.org">x</a>', False),
        ('<link rel="canonical" href="https://example.org/">', False),
        ('<link rel="stylesheet" href="https://fonts.example.org/css">', True),
        ('<script src="//cdn.example.org/x.js"></script>', True),
        ('<script src="assets/x.js"></script>', False),
        ("@font-face{src:url(https://example.org/x.woff2)}", True),
    ],
)
def test_what_a_browser_would_fetch_from_elsewhere_is_found(text: str, asks: bool) -> None:
    assert bool(outside_requests(text)) is asks


def test_examples_of_docstrings_become_code_blocks() -> None:
    pytest.importorskip("griffe")
    from doctests import fenced

    assert fenced("Add.\n\n>>> 1 + 1  # doctest: +SKIP\n2\n\nMore.") == "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore."
