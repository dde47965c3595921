"""Where the paths of a table lead, links included, and whether that is inside the folders that it may name."""

import os
from pathlib import Path
from typing import NamedTuple

from solfa.files.printable_names import escape_path


class Resolved(NamedTuple):
    """The file a row's path leads to, or why there is none."""

    path: Path
    error: str | None = None


def resolve_inside(name: str, bases: tuple[Path, ...], links: "FollowedLinks | None" = None) -> Resolved:
    """Resolve a path of a table against each base; accept it only if it ends up inside one of them."""
    links = links or FollowedLinks()
    roots = links.roots(bases)
    outside = False
    for base in bases:
        try:
            path = links.follow(base / name)
            inside = any(path.is_relative_to(root) for root in roots)
            if inside and path.exists():
                return Resolved(path)
        except (OSError, RuntimeError, ValueError) as error:
            return Resolved(base / "invalid", f"the path {escape_path(name)} cannot be followed: {error}")
        outside = outside or not inside
    folders = " or ".join(escape_path(root) for root in roots)
    if outside:
        return Resolved(
            bases[0] / name,
            f"the path {escape_path(name)} leads out of {folders}; if that is where the audio should be, "
            "name a folder that contains it as `audio_root`",
        )
    return Resolved(bases[0] / name, f"no such file: {escape_path(name)} below {folders}")


class Below(NamedTuple):
    """Where a folder is, and what comes before the names of its files to say where they are below a base."""

    real: str
    below: str


class FoldersBelow(dict[str, Below | None]):
    """The folders of a base by their names, each resolved when it is first met; None for what is not below it."""

    def __init__(self, base: Path) -> None:
        super().__init__()
        self._base, self._root = base, base.resolve()

    def __missing__(self, name: str) -> Below | None:
        self[name] = found = self._find(name)
        return found

    def _find(self, name: str) -> Below | None:
        try:
            real = (self._base / name).resolve()
        except (OSError, RuntimeError, ValueError):
            return None
        if not real.is_relative_to(self._root):
            return None
        return Below(str(real).removesuffix("/"), "" if real == self._root else f"{real.relative_to(self._root)}/")


class FollowedLinks:
    """Resolves paths; of folders that were met before, it remembers where they lead."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._roots: dict[tuple[Path, ...], list[Path]] = {}

    def roots(self, bases: tuple[Path, ...]) -> list[Path]:
        """Resolve some folders, once."""
        found = self._roots.get(bases)
        if found is None:
            found = self._roots[bases] = [base.resolve() for base in bases]
        return found

    def follow(self, path: Path) -> Path:
        """Resolve a path as `Path.resolve` does."""
        folder, name = os.path.split(path)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = str(Path(folder).resolve())
        found = os.path.join(real, name)  # noqa: PTH118
        # `..` is not below its folder; a link leads on; what cannot be looked at gets the error of `resolve`.
        is_plain = name not in ("", ".", "..") and os.path.lexists(found) and not os.path.islink(found)  # noqa: PTH114
        return Path(found) if is_plain else path.resolve()
