"""A store that is a prefix of an object store: Amazon S3 and its kin, Google Cloud Storage, Azure (the extra `s3`).

obstore speaks to them. It is imported when something is read or written, and a client is made in each process from
the environment of that process: a pickled store is its URL.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, final

from solfa.errors import ConfigError, StoreError
from solfa.files.chunks import chunks
from solfa.files.crash_points import crash_point
from solfa.files.stores.bucket_faults import StoreAwayError, bucket_fault
from solfa.files.stores.credentials import s3_settings
from solfa.files.stores.protocol import Entry
from solfa.files.stores.scratch import scratch_path
from solfa.files.stores.store_probe import StoreProbe

T = TypeVar("T")

KEYS_PER_PAGE = 1000
CHUNK_BYTES = 4 << 20
RETRY_SECONDS = 180.0
PAUSE_SECONDS = 0.5
"""How long a store that was reached before may be away: servers restart, and networks come back."""
_FIRST_RETRIES = 2
"""How often the first request is tried again: a mistyped address is answered soon."""
_CLIENT_OPTIONS = {
    "connect_timeout": timedelta(seconds=10),
    "read_timeout": timedelta(seconds=60),
    # The default of 30 s is for a whole request: a shard may take longer.
    "timeout": timedelta(minutes=30),
}


class _Process:
    """Whether obstore was used here before this process was forked: its threads are not copied, and it would hang."""

    is_used = False
    is_forked_user = False


def _after_fork() -> None:
    _Process.is_forked_user = _Process.is_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@final
class BucketStore:
    """The objects below a prefix, by their keys.

    >>> from solfa.files import BucketStore
    >>> BucketStore("s3://bucket") / "music.solfa"
    BucketStore('s3://bucket/music.solfa')
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._is_reached = False
        self._lock = threading.Lock()

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"BucketStore({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BucketStore) and other.url == self.url

    def __hash__(self) -> int:
        return hash(self.url)

    def __reduce__(self) -> tuple[type["BucketStore"], tuple[str]]:
        return BucketStore, (self.url,)

    @property
    def name(self) -> str:
        """The last part of the URL, as of a path."""
        return self.url.rpartition("/")[2]

    def __truediv__(self, below: str) -> "BucketStore":
        """Return the store of a folder below."""
        return BucketStore(f"{self.url}/{below}")

    def create(self, key: str, content: bytes | Path) -> bool:
        """Create an object; True also if it is there with the same content: the answer to a first try may be lost."""
        self.probe.expect(self)
        crash_point("put:before")
        is_new = self.put_new(key, content)
        crash_point("put:after")
        created = is_new or self._holds(key, content)
        if isinstance(content, Path):
            content.unlink(missing_ok=True)
        return created

    def put_new(self, key: str, content: bytes | Path) -> bool:
        """Put an object unless there is one; return False if there is."""
        try:
            # Not tried again by the client: it cannot know whether the first try was a success. `create` can.
            self._try(lambda client: self._obstore.put(client, key, content, mode="create"))
        except self._obstore.exceptions.AlreadyExistsError:
            return False
        return True

    def _holds(self, key: str, content: bytes | Path) -> bool:
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        found = self.head(key)
        if found is None or found.size_bytes != size:
            return False
        try:
            if isinstance(content, bytes):
                return self.read(key) == content
            with content.open("rb") as file:
                return all(file.read(len(chunk)) == chunk for chunk in self.stream(key))
        except FileNotFoundError:  # a lease of somebody else, who came to an end since the look above
            return False

    def replace(self, key: str, content: bytes | Path) -> None:
        self._try(lambda client: self._obstore.put(client, key, content))
        if isinstance(content, Path):
            content.unlink(missing_ok=True)

    def read(self, key: str) -> bytes:
        return self._try(lambda client: bytes(self._obstore.get(client, key).bytes()))

    def read_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        if not ranges:
            return []
        starts, ends = [start for start, _ in ranges], [stop for _, stop in ranges]
        found = self._try(lambda client: self._obstore.get_ranges(client, key, starts=starts, ends=ends))
        return [bytes(content) for content in found]

    def stream(self, key: str) -> Iterator[bytes]:
        with self._faults():
            for chunk in self._obstore.get(self._client, key).stream(min_chunk_size=CHUNK_BYTES):
                yield bytes(chunk)

    def head(self, key: str) -> Entry | None:
        try:
            return _entry(self._try(lambda client: self._obstore.head(client, key)))
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        found = self._try(lambda client: self._obstore.list_with_delimiter(client, folder or None))
        keys = [*(entry["path"] for entry in found["objects"]), *found["common_prefixes"]]
        return sorted(key.rpartition("/")[2] for key in keys)

    def list(self, folder: str = "", after: str | None = None) -> Iterator[Entry]:
        """List objects in the order of the server, which need not be that of their keys; a lost page is asked again."""
        listed: list[str] = []  # behind `after`; no more than an object and those below it that were listed last
        has_moved = True
        while has_moved:
            has_moved = False
            try:
                with self._faults():
                    pages = self._obstore.list(self._client, folder or None, offset=after, chunk_size=KEYS_PER_PAGE)
                    for page in pages:
                        for found in page:
                            entry = _entry(found)
                            if entry.key in listed:
                                continue
                            yield entry
                            has_moved = True
                            if listed and continues_behind(listed[-1], entry.key):
                                after, listed = listed[-1], []
                            listed.append(entry.key)
                    return
            except StoreError:
                if not has_moved:
                    raise

    def delete(self, keys: Iterable[str]) -> None:
        for some in chunks(keys, KEYS_PER_PAGE):
            with suppress(FileNotFoundError):
                self._try(partial(self._obstore.delete, paths=some))

    def temporary(self, name: str) -> Path:
        return scratch_path(name)

    @cached_property
    def probe(self) -> StoreProbe:
        """Whether the store keeps what is there, asked once."""
        return StoreProbe()

    @property
    def endpoint(self) -> str:
        """The server, if it is not the one that the scheme of the URL means."""
        return s3_settings(os.environ).get("endpoint", "") if self.url.startswith("s3://") else ""

    def now(self) -> float:
        """Tell the time by the clock of the store, as far as it is known."""
        return time.time() + self.probe.clock_offset

    @property
    def _client(self) -> Any:
        if _Process.is_forked_user:
            raise StoreError(
                f"{self.url}: this process was forked from one that uses object storage, which would hang; start "
                'workers with multiprocessing_context="forkserver" or "spawn"'
            )
        with self._lock:
            return self._patient_client if self._is_reached else self._first_client

    @cached_property
    def _first_client(self) -> Any:
        return self._connect({"max_retries": _FIRST_RETRIES, "retry_timeout": timedelta(seconds=20)})

    @cached_property
    def _patient_client(self) -> Any:
        return self._connect({"max_retries": 20, "retry_timeout": timedelta(seconds=RETRY_SECONDS)})

    def _connect(self, retries: dict[str, Any]) -> Any:
        settings: dict[str, Any] = s3_settings(os.environ) if self.url.startswith("s3://") else {}
        _Process.is_used = True
        # Whoever names an endpoint without TLS means it.
        options = {**_CLIENT_OPTIONS, "allow_http": settings.get("endpoint", "").startswith("http://")}
        return self._obstore.store.from_url(self.url, client_options=options, retry_config=retries, **settings)

    @cached_property
    def _obstore(self) -> Any:
        try:
            import obstore.exceptions
            import obstore.store
        except ImportError:
            raise ConfigError(f"{self.url}: object storage needs obstore: pip install 'solfa[s3]'") from None
        return obstore

    def _try(self, call: Callable[[Any], T]) -> T:
        """Call something of obstore; if a store that was reached before goes away meanwhile, try it again for a while.

        The client tries again, too, but not what it cannot know the outcome of, such as half a put.
        """
        began = time.monotonic()
        while True:
            try:
                with self._faults():
                    return call(self._client)
            except StoreAwayError:
                if not self._is_reached or time.monotonic() - began > RETRY_SECONDS:
                    raise
                time.sleep(PAUSE_SECONDS)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Translate what obstore raises; a missing object stays a FileNotFoundError, a missing bucket does not."""
        faults = self._obstore.exceptions
        try:
            yield
        except faults.AlreadyExistsError:
            self._is_reached = True
            raise
        except FileNotFoundError as error:
            self._is_reached = True
            if "NoSuchBucket" in str(error):
                raise bucket_fault(self.url, error, os.environ) from None
            raise FileNotFoundError(f"{self.url}: no such object") from None
        except (faults.BaseError, ValueError, OSError) as error:
            raise bucket_fault(self.url, error, os.environ) from None
        except BaseException as error:
            if type(error).__name__ == "PanicException":  # obstore, where a range begins behind the end
                raise StoreError(f"{self.url}: an object is shorter than it was; run `solfa verify`") from None
            raise
        else:
            self._is_reached = True


def continues_behind(key: str, following: str) -> bool:
    """Say whether a listing can be continued behind a key, by the key that follows it.

    SeaweedFS takes an object `a` for a folder that it is through with, if there is one: `a/b` would be missing.
    """
    return not following.startswith(f"{key}/")


def _entry(found: Any) -> Entry:
    return Entry(found["path"], found["size"], found["e_tag"] or "", found["last_modified"].timestamp())
