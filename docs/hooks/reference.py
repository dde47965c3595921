"""The API reference: a page per public module, made from docstrings. Nothing is imported, so it builds without torch.

A name that several modules export is described where it is shortest (`solfa.encode`) and linked from the others.
"""

from typing import TYPE_CHECKING

from public_surface import first_line, module_path, public_names, type_checking_imports

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

INDEX = "reference/index.md"
HIDDEN = frozenset({"__version__"})


def page_of(module: str) -> str:
    """Name the page of a module."""
    return f"reference/{module}.md"


def described_in(names: dict[str, list[str]]) -> dict[tuple[str, str], str]:
    """Say for each name and the module it is defined in which public module describes it."""
    found: dict[tuple[str, str], str] = {}
    for module in sorted(names, key=lambda module: (module.count("."), module)):
        for name in names[module]:
            found.setdefault((home(module, name), name), module)
    return found


def home(module: str, name: str) -> str:
    """Name the module that a public name is defined in."""
    homes = type_checking_imports(module).items()
    return next((found for found, names in homes if name in names), module)


def module_page(module: str, names: list[str], described: dict[tuple[str, str], str]) -> str:
    """Write the page of one module: what it is for, then its names."""
    own = [name for name in names if name not in HIDDEN and described[home(module, name), name] == module]
    lines = [f"# {module}", "", _purpose(module), ""]
    for name in names:
        place = described[home(module, name), name]
        if place != module:
            lines += [f"`{name}` is described in [{place}]({place}.md#{place}.{name}).", ""]
    for name in own:
        # `solfa.train` and `solfa.evaluate` are also modules, which can be called; describe what is called.
        place = home(module, name) if module_path(f"{module}.{name}").is_file() else module
        lines += [f"::: {place}.{name}", ""]
    return "\n".join(lines)


def _purpose(module: str) -> str:
    path = module_path(module)
    below = f" Its public names are imported by `from {module} import ...`." if path.name == "__init__.py" else ""
    return first_line(module) + ("" if module == "solfa" else below)


def index_page(names: dict[str, list[str]]) -> str:
    """Write the page that lists all modules with their names."""
    lines = [
        "# API",
        "",
        "The public names, by the module to import them from. Everything else may move without notice.",
        "",
        "| module | names |",
        "|---|---|",
    ]
    for module, listed in names.items():
        shown = ", ".join(f"`{name}`" for name in listed if name not in HIDDEN)
        lines.append(f"| [{module}]({module}.md) | {shown} |")
    return "\n".join([*lines, ""])


def on_files(files: "Files", config: "MkDocsConfig") -> "Files":
    """Add the pages of the reference."""
    from mkdocs.structure.files import File

    names = public_names()
    described = described_in(names)
    files.append(File.generated(config, INDEX, content=index_page(names)))
    for module, listed in names.items():
        files.append(File.generated(config, page_of(module), content=module_page(module, listed, described)))
    return files


def on_page_content(html: str, page: "Page", config: "MkDocsConfig", files: "Files") -> str:
    """List only the names in the table of contents of a page, not all their fields and methods."""
    if page.file.src_uri.startswith("reference/"):
        for title in page.toc:
            for name in title.children:
                name.children = []
    return html


def on_config(config: "MkDocsConfig") -> "MkDocsConfig":
    """Put the pages into the navigation, where it says `API: reference/`."""
    for group in config.nav or []:
        for title, entries in group.items():
            pages = [INDEX, *({module: page_of(module)} for module in public_names())]
            group[title] = [{"API": pages} if entry == {"API": "reference/"} else entry for entry in entries]
    return config
