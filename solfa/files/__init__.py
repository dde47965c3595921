"""Files that either do not exist or are complete, on this machine or in an object store."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.files.digest import canonical_json, file_sha256, value_sha256
    from solfa.files.stores.bucket_store import BucketStore
    from solfa.files.stores.local_store import LocalStore
    from solfa.files.stores.place import Place, read_place, store_at
    from solfa.files.stores.protocol import Entry, Store
    from solfa.files.whole_files import create_once, replace_atomically, temporary_path
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.files.digest": ["canonical_json", "file_sha256", "value_sha256"],
            "solfa.files.stores.bucket_store": ["BucketStore"],
            "solfa.files.stores.local_store": ["LocalStore"],
            "solfa.files.stores.place": ["Place", "read_place", "store_at"],
            "solfa.files.stores.protocol": ["Entry", "Store"],
            "solfa.files.whole_files": ["create_once", "replace_atomically", "temporary_path"],
        },
    )

__all__ = [
    "BucketStore",
    "Entry",
    "LocalStore",
    "Place",
    "Store",
    "canonical_json",
    "create_once",
    "file_sha256",
    "read_place",
    "replace_atomically",
    "store_at",
    "temporary_path",
    "value_sha256",
]
