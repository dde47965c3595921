"""Files that either do not exist or are complete: create-only publishing, digests, safe names, crash points."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.files.digest import canonical_json, file_sha256, value_sha256
    from solfa.files.whole_files import create_once, replace_atomically, temporary_path
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.files.digest": ["canonical_json", "file_sha256", "value_sha256"],
            "solfa.files.whole_files": ["create_once", "replace_atomically", "temporary_path"],
        },
    )

__all__ = ["canonical_json", "create_once", "file_sha256", "replace_atomically", "temporary_path", "value_sha256"]
