"""What is in a bucket, how to put something there, and which processes run."""

import hashlib
from pathlib import Path

from solfa.files import LocalStore, store_at


def bucket_files(url: str) -> dict[str, str]:
    """Digest every object of a dataset, as `tree_digest` does for a folder."""
    store = store_at(url)
    keys = [entry.key for entry in store.list() if not entry.key.startswith(".tmp/")]
    return {key: hashlib.sha256(store.read(key)).hexdigest() for key in sorted(keys)}


def copied(folder: Path, url: str) -> str:
    """Copy the files of a folder to a bucket."""
    store = store_at(url)
    for entry in LocalStore(folder).list():
        if not entry.key.startswith(".tmp"):
            store.replace(entry.key, (folder / entry.key).read_bytes())
    return url


def processes_below(pid: int, word: str) -> list[int]:
    """List the processes below one whose command line has a word in it."""
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, frontier = set[int](), {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier}
        found |= frontier
    return [child for child in found if word.encode() in commands.get(child, b"")]
