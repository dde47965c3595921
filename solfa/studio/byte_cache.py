"""A small cache of what is slow to make: sounds and pictures as bytes, the least recently used ones go first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

MAX_BYTES = 256 * 10**6


class ByteCache:
    """Bytes by key; several who ask for the same at once wait for the first, and it is made once."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._making: dict[Hashable, threading.Lock] = {}

    def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what is kept for a key, or make it; an error of `make` is not kept."""
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            with self._lock:
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
            try:
                content = make()
                with self._lock:
                    self._keep(key, content)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return content

    def _keep(self, key: Hashable, content: bytes) -> None:
        self._kept[key] = content
        total = sum(map(len, self._kept.values()))
        while total > self._max_bytes and len(self._kept) > 1:
            total -= len(self._kept.popitem(last=False)[1])
