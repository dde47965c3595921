"""What a tree of files holds, file by file."""

import hashlib
from pathlib import Path


def tree_digest(root: Path) -> dict[str, str]:
    """Hash every file of a tree, except what is temporary."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".tmp" not in path.relative_to(root).parts
    }
