"""A look at an object store before the first write: some overwrite what is there although they were told not to.

Every promise of a dataset rests on this: the first commit of a shard counts, whoever comes second. A store that lets
the second one win is refused before anything is written.
"""

import secrets
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, final

from solfa.errors import StoreError

if TYPE_CHECKING:
    from solfa.files.stores.bucket_store import BucketStore

PROBES = ".tmp/probe-"
"""How the keys begin of the two objects that are created to see what happens."""


@final
class StoreProbe:
    """What is known about a store: whether it was asked, and by how much its clock differs from ours."""

    def __init__(self) -> None:
        self._is_sure = False
        self._lock = threading.Lock()
        self.clock_offset = 0.0
        """Seconds to add to the time of this machine."""

    def expect(self, store: "BucketStore") -> None:
        """Refuse a store in which a second object of one name replaces the first."""
        with self._lock:
            if self._is_sure:
                return
            key = f"{PROBES}{secrets.token_hex(8)}"
            before = time.time()
            try:
                store.put_new(key, b"first")
                found = store.head(key)
                is_replaced = store.put_new(key, b"second") or store.read(key) != b"first"
            finally:
                with suppress(StoreError):  # JuiceFS removes it, but answers in a way that obstore does not understand
                    store.delete([key])
            if is_replaced:
                raise StoreError(
                    f"{store}: this store overwrites objects although it is told not to, so two encoders would replace "
                    "each other's shards and nobody would notice; use a store with conditional writes "
                    "(If-None-Match), or a local folder"
                )
            if found is not None:
                self.clock_offset = found.modified - before
            self._is_sure = True
