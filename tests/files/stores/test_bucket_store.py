import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from solfa.errors import ConfigError, StoreError
from solfa.files import BucketStore, read_place
from tests.forked import expect_success, fork_ranks


def test_a_put_whose_answer_was_lost_is_a_success(bucket):
    store = read_place(bucket)
    store.put_new("commit/00000.json", b"mine")  # as a first try whose answer never came
    assert store.create("commit/00000.json", b"mine")
    assert not store.create("commit/00000.json", b"yours")
    file = store.temporary("data")
    file.write_bytes(bytes(5 << 20))
    store.put_new("data/x", file)
    assert store.create("data/x", file)


def test_eight_writers_of_one_name_have_one_winner(bucket):
    stores = [BucketStore(bucket) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda pair: pair[1].create("commit/0", f"{pair[0]}".encode()), enumerate(stores)))
    assert sum(won) == 1
    assert stores[0].read("commit/0") == f"{won.index(True)}".encode()


@pytest.mark.parametrize("as_file", [False, True])
def test_what_is_removed_while_it_is_compared_is_not_ours(bucket, monkeypatch, tmp_path, as_file):
    """Leases of two writers have one length: the first may go between the look at its size and its reading."""
    store, look = BucketStore(f"{bucket}/x"), BucketStore.head
    assert store.create("lease", b"one")

    def look_and_lose(self, key):
        found = look(self, key)
        self.delete([key])
        return found

    monkeypatch.setattr(BucketStore, "head", look_and_lose)
    path = tmp_path / "two"
    path.write_bytes(b"two")
    assert not store.create("lease", path if as_file else b"two")


def test_nothing_is_left_of_the_probe(bucket):
    store = read_place(bucket)
    store.create("a", b"")
    assert [entry.key for entry in store.list()] == ["a"]


def test_a_fork_of_a_process_that_used_it_is_told_so(bucket):
    store = read_place(bucket)
    store.create("a", b"x")

    def read(rank: int) -> None:
        with pytest.raises(StoreError, match="forkserver"):
            store.read("a")

    expect_success(fork_ranks(1, read))


def test_a_spawned_process_makes_a_client_of_its_own(bucket):
    store = read_place(bucket)
    store.create("a", b"x")
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        assert pool.apply(store.read, ("a",)) == b"x"


def test_without_the_extra_one_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(ConfigError, match=r"solfa\[s3\]"):
        BucketStore("s3://bucket/x").read("a")


@pytest.mark.parametrize(
    ("variables", "url", "words"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong-secret-of-mine"}, "s3://tests/x", ["refuses", "SignatureDoesNotMatch"]),
        ({"AWS_ACCESS_KEY_ID": "nobody-known"}, "s3://tests/x", ["refuses", "InvalidAccessKeyId"]),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "s3://tests/x", ["cannot be reached", "127.0.0.1:1"]),
        ({"AWS_ENDPOINT_URL": "http://me:hunter22@127.0.0.1:1"}, "s3://tests/x", ["cannot be reached"]),
        ({}, "s3://no-such-bucket-here/x", ["there is no s3://no-such-bucket-here"]),
    ],
)
def test_faults_are_one_sentence_without_secrets(bucket, monkeypatch, variables, url, words):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for attempt in (lambda: list(BucketStore(url).list()), lambda: BucketStore(url).read("a")):
        with pytest.raises(StoreError) as fault:
            attempt()
        said = str(fault.value)
        assert said.startswith(url) and all(word in said for word in words)
        assert "\n" not in said and len(said) < 250
        assert not any(secret in said for secret in ("wrong-secret", "hunter22", "nobody-known", "solfa-tests-secret"))


def test_a_profile_is_as_good_as_variables(bucket, monkeypatch, tmp_path):
    settings = _taken(monkeypatch)
    (tmp_path / "config").write_text(
        f"[profile music]\nregion = us-east-1\nendpoint_url = {settings['AWS_ENDPOINT_URL']}\n"
    )
    (tmp_path / "credentials").write_text(
        f"[music]\naws_access_key_id = {settings['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {settings['AWS_SECRET_ACCESS_KEY']}\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "music")
    store = BucketStore(bucket)
    assert store.create("a", b"x") and store.read("a") == b"x"


def _taken(monkeypatch) -> dict[str, str]:
    names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION")
    found = {name: os.environ[name] for name in names}
    for name in names:
        monkeypatch.delenv(name)
    return found


def test_importing_the_package_does_not_import_obstore():
    code = "import sys, solfa.files.stores.place, solfa.store.dataset; assert 'obstore' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
