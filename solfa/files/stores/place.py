"""Places as a user types them: a path, or the URL of an object store. The only code that takes URLs apart."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from solfa.errors import ConfigError
from solfa.files.stores.bucket_store import BucketStore
from solfa.files.stores.local_store import LocalStore

BUCKET_SCHEMES = ("s3", "gs", "az")
"""Amazon S3 and whatever speaks its protocol, Google Cloud Storage, Azure Blob Storage."""

Place = Path | BucketStore
"""Where something is: a path of this machine, or a prefix of an object store."""


def is_url(text: str | Path | BucketStore) -> bool:
    """Say whether a text is a URL and not a path; any scheme counts, so that a mistyped one is not made a folder."""
    return isinstance(text, str) and text.partition("://")[0].isalnum() and "://" in text


def read_place(place: str | Path | BucketStore) -> Place:
    """Read what a user typed: `music.solfa`, `file:///data/music.solfa` or `s3://bucket/music.solfa`.

    >>> from solfa.files import read_place
    >>> read_place("s3://bucket/music.solfa/")
    BucketStore('s3://bucket/music.solfa')
    """
    if not isinstance(place, str):
        return place
    if not is_url(place):
        return Path(place)
    # Not urlsplit for buckets: a question mark or a number sign in a key is part of its name.
    scheme, _, rest = place.partition("://")
    if scheme == "file":
        return _local(place)
    if scheme not in BUCKET_SCHEMES:
        raise ConfigError(f"{place}: expected a path or a URL that begins with s3://, gs://, az:// or file://")
    bucket, _, prefix = rest.partition("/")
    if "@" in bucket:
        raise ConfigError(
            f"{place}: expected no credentials in a URL; set them in the environment, "
            "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    segments = prefix.removesuffix("/").split("/") if prefix else []
    if not bucket or any(segment in ("", ".", "..") for segment in segments):
        raise ConfigError(f"{place}: expected {scheme}://BUCKET/PATH, found a URL with an empty part, . or ..")
    return BucketStore(f"{scheme}://{'/'.join([bucket, *segments])}")


def expand_place(text: str) -> Place:
    """Read a place of a config, in which a path may begin with `~`."""
    place = read_place(text)
    return place.expanduser() if isinstance(place, Path) else place


def expect_place(text: str) -> str:
    """Refuse a URL that names no place, or has credentials in it; return what was typed."""
    read_place(text)
    return text


def whole_place(place: Place) -> Place:
    """Name a place so that it is the same from every folder of this machine."""
    return place.absolute() if isinstance(place, Path) else place


def store_at(place: str | Path | BucketStore | LocalStore) -> LocalStore | BucketStore:
    """Open the store at a place; nothing is read yet.

    >>> from solfa.files import store_at
    >>> store_at("audio").names("drums")
    ['kick.wav', 'loop.flac', 'loop.json']
    """
    if isinstance(place, LocalStore | BucketStore):
        return place
    found = read_place(place)
    return LocalStore(found) if isinstance(found, Path) else found


def _local(url: str) -> Path:
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise ConfigError(f"{url}: expected a file of this machine, as in file:///data/music.solfa")
    return Path(unquote(parts.path))
