import pickle
from pathlib import Path

import pytest

from solfa.errors import ConfigError
from solfa.files import BucketStore, LocalStore, read_place, store_at


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/a/b.solfa/", "s3://bucket/a/b.solfa"),
        ("gs://bucket/a?b#c", "gs://bucket/a?b#c"),
        ("az://container/x", "az://container/x"),
    ],
)
def test_a_url_is_a_prefix_of_an_object_store(text, url):
    assert str(read_place(text)) == url
    assert isinstance(store_at(text), BucketStore)


@pytest.mark.parametrize("text", ["music.solfa", "a:/b", "C:/music", "./s3:/x"])
def test_anything_else_is_a_path(text):
    assert read_place(text) == Path(text)
    assert store_at(text) == LocalStore(Path(text))


def test_a_file_url_is_a_path():
    assert read_place("file:///data/my%20music.solfa") == Path("/data/my music.solfa")


@pytest.mark.parametrize(
    "text", ["s4://bucket/x", "https://host/x", "s3://", "s3:///x", "s3://b//x", "s3://b/../x", "file://host/x"]
)
def test_other_urls_are_refused(text):
    with pytest.raises(ConfigError, match="expected"):
        read_place(text)


def test_credentials_in_a_url_are_refused_and_not_repeated():
    with pytest.raises(ConfigError, match="AWS_SECRET_ACCESS_KEY") as fault:
        read_place("s3://me:hunter22@bucket/x")
    assert "hunter22" not in str(fault.value)


def test_a_pickled_store_is_its_url(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter22hunter22")
    store = BucketStore("s3://bucket/x")
    assert b"hunter22" not in pickle.dumps(store)
    assert pickle.loads(pickle.dumps(store)) == store
