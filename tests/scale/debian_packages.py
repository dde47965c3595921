"""Programs of Debian without installing anything: packages are fetched with apt, unpacked, and used where they are."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


class UnavailableError(Exception):
    """The packages cannot be had here; the reason is one sentence."""


def unpack(packages: Sequence[str], folder: Path, *, with_dependencies: bool = False) -> Path:
    """Return a folder in which packages are unpacked, which are fetched if they are not there yet.

    `libaio1|libaio1t64` is the first of several names that apt knows. With dependencies, whatever installing them
    would bring along, too: that is what this machine lacks; `library_path` is where programs find it.
    """
    root, whole = folder / "root", folder / "whole"
    if whole.exists() and whole.read_text() == " ".join(packages):
        return root
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise UnavailableError("there is no apt on this machine")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "debs").mkdir(parents=True)
    options: list[str] = []
    if _unknown(packages, options):  # lists that are missing or old are fetched, too, but not into the system's place
        options = [f"-oDir::State::lists={folder}/lists", f"-oDir::Cache={folder}/cache"]
        (folder / "lists/partial").mkdir(parents=True)
        (folder / "cache/archives/partial").mkdir(parents=True)
        _apt(["apt-get", *options, "update"], folder)
    if unknown := _unknown(packages, options):
        raise UnavailableError(f"apt does not know {', '.join(unknown)}")
    known = _known(packages, options)
    names = [next(name for name in package.split("|") if name in known) for package in packages]
    if with_dependencies:
        names = _would_install(names, options)
    _apt(["apt-get", *options, "download", *names], folder / "debs")
    for package in sorted((folder / "debs").glob("*.deb")):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    shutil.rmtree(folder / "debs")
    whole.write_text(" ".join(packages))
    return root


def library_path(root: Path) -> str:
    """Return where unpacked packages keep their shared libraries, for LD_LIBRARY_PATH."""
    folders = {library.parent for library in root.glob("**/*.so*")}
    return os.pathsep.join(sorted(map(str, folders)))


def _would_install(names: Sequence[str], options: Sequence[str]) -> list[str]:
    command = ["apt-get", *options, "--simulate", "--no-install-recommends", "install", *names]
    planned = subprocess.run(command, capture_output=True, text=True, check=False)
    return re.findall(r"^Inst (\S+) ", planned.stdout, re.MULTILINE) or list(names)


def _known(packages: Sequence[str], options: Sequence[str]) -> set[str]:
    names = [name for package in packages for name in package.split("|")]
    shown = subprocess.run(["apt-cache", *options, "show", *names], capture_output=True, text=True, check=False)
    return set(re.findall(r"^Package: (\S+)$", shown.stdout, re.MULTILINE))


def _unknown(packages: Sequence[str], options: Sequence[str]) -> list[str]:
    known = _known(packages, options)
    return [package for package in packages if known.isdisjoint(package.split("|"))]


def _apt(command: Sequence[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnavailableError(f"{command[0]} failed: {last}")
