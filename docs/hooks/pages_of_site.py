"""Pages of the site that are not in docs/: README, CONTRIBUTING, RELEASING, CHANGELOG, LICENSE and the recipes, read
from where GitHub shows them; and links and fences of all pages, from what GitHub understands to what MkDocs does."""

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layers import as_diagram, layers, with_layers
from public_surface import ROOT
from reference import page_of

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
    **{
        path.relative_to(ROOT).as_posix(): f"recipes/{path.parent.name}.md"
        for path in sorted((ROOT / "recipes").glob("*/README.md"))
    },
}
"""Files of the repository that are pages of the site."""

_FENCE = re.compile(r"^(?P<mark>```+)(?P<language>\w+)(?P<words>( [^\n`]+)?)$", re.MULTILINE)
_FENCED = re.compile(r"^(```+)[^\n]*\n.*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<text>\[[^\]\n]*\])\((?P<target>[^)\s]+)\)")


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages that are read from outside docs/."""
    from mkdocs.structure.files import File

    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        content = text if source.endswith(".md") else f"# Licence\n\n```text\n{text}\n```\n"
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """Rewrite a page for MkDocs."""
    source = {page: source for source, page in OUTSIDE.items()}.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if source == "CONTRIBUTING.md":
        pages = {f"solfa.{name}": page_of(f"solfa.{name}") for layer in layers() for name in layer}
        shown = {module: _site_url(path, page) for module, path in pages.items() if path in files.src_uris}
        markdown = with_layers(markdown, as_diagram(layers(), shown))
    return outside_fences(plain_fences(markdown), lambda text: site_links(text, source, config.repo_url))


def _site_url(target: str, page: "Page") -> str:
    """Link to another page from inside HTML, which MkDocs leaves as it is."""
    url = target.removesuffix(".md") + "/"
    return posixpath.relpath(url, posixpath.dirname(page.url) or ".") + "/" if page.url else url


def plain_fences(markdown: str) -> str:
    """Take from fences what only the tests of the pages read; a file's name becomes the title of its block."""

    def plain(match: re.Match[str]) -> str:
        names = [word for word in match["words"].split() if "." in word]
        title = f' title="{names[0]}"' if names else ""
        return f"{match['mark']}{match['language']}{title}"

    return _FENCE.sub(plain, markdown)


def outside_fences(markdown: str, change: Any) -> str:
    """Change what is not in a fenced block."""
    done, end = [], 0
    for match in _FENCED.finditer(markdown):
        done += [change(markdown[end : match.start()]), match[0]]
        end = match.end()
    return "".join([*done, change(markdown[end:])])


def site_links(text: str, source: str, repository: str | None) -> str:
    """Rewrite the links of a file of the repository to pages of the site.

    What is no page is a link into the repository, if the site knows where that is, and else only its text.
    """

    def rewritten(match: re.Match[str]) -> str:
        target, _, anchor = match["target"].partition("#")
        if not target or re.match(r"[a-z]+:", target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        page = OUTSIDE.get(path) or OUTSIDE.get(f"{path}/README.md")
        if page is None and path.startswith("docs/"):
            page = path.removeprefix("docs/")
        if page is not None:
            here = posixpath.dirname(OUTSIDE.get(source, source.removeprefix("docs/")))
            relative = posixpath.relpath(page, here or ".")
            return f"{match['text']}({relative}{'#' + anchor if anchor else ''})"
        if repository:
            kind = "tree" if Path(ROOT / path).is_dir() else "blob"
            return f"{match['text']}({repository.rstrip('/')}/{kind}/main/{path})"
        return match["text"][1:-1]

    return _LINK.sub(rewritten, text)
