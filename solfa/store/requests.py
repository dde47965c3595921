"""Ask an object store several things at once; a folder answers at once, so it is asked one thing after another.

Most of a request is waiting: what does not need the answer to something else should not wait for it.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar, final

from solfa.files.stores.place import Place

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

READS_AT_ONCE = 32


def each(root: Place, read: Callable[[S], T], items: Iterable[S]) -> list[T]:
    """Read something for every item, in order; from an object store, for many items at once."""
    if isinstance(root, Path):
        return [read(item) for item in items]
    with ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="requests") as pool:
        return list(pool.map(read, items))


@final
class Requests:
    """Questions that do not need each other's answers; none is left open at the end of the context."""

    def __init__(self, root: Place) -> None:
        self._pool = None if isinstance(root, Path) else ThreadPoolExecutor(thread_name_prefix="requests")

    def begin(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Callable[[], T]:
        """Ask something; the result gives the answer, or raises what went wrong. A folder is asked only then."""
        if self._pool is None:
            return lambda: ask(*args, **kwargs)
        return self._pool.submit(ask, *args, **kwargs).result

    def __enter__(self) -> "Requests":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
