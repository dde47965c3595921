"""What every store promises, tried with a folder and with a real object server."""

import pytest

from solfa.files import Store, store_at


@pytest.fixture(params=["local", "bucket"])
def store(request, tmp_path) -> Store:
    return store_at(tmp_path / "store" if request.param == "local" else request.getfixturevalue("bucket"))


def test_the_first_file_of_a_name_stays(store):
    assert store.create("commit/00000.json", b"first")
    assert not store.create("commit/00000.json", b"second")
    assert store.read("commit/00000.json") == b"first"


def test_a_finished_file_is_created_once_and_is_gone_afterwards(store):
    for content, created in ((b"first", True), (b"other", False)):
        file = store.temporary("data")
        file.write_bytes(content)
        assert store.create("data/x.arrow", file) is created
        assert not file.exists()
    assert store.read("data/x.arrow") == b"first"


def test_a_file_can_be_put_in_the_place_of_another(store):
    store.create("a", b"damaged")
    store.replace("a", b"whole")
    file = store.temporary("b")
    file.write_bytes(b"new")
    store.replace("b", file)
    assert (store.read("a"), store.read("b")) == (b"whole", b"new")


def test_ranges_are_parts_of_a_file(store):
    store.create("a", bytes(range(100)))
    assert store.read_ranges("a", [(0, 3), (50, 52), (98, 120)]) == [bytes([0, 1, 2]), bytes([50, 51]), bytes([98, 99])]
    assert store.read_ranges("a", []) == []


def test_what_is_missing_is_not_there(store):
    assert store.head("a") is None
    assert store.names("folder") == [] and list(store.list("folder")) == []
    store.delete(["a"])
    for read in (store.read, lambda key: store.read_ranges(key, [(0, 1)])):
        with pytest.raises(FileNotFoundError):
            read("a")


def test_listing_gives_sizes_and_versions_and_continues_behind_a_key(store):
    for number in range(5):
        store.create(f"commit/{number}", bytes(number))
    store.create("commits/x", b"")
    store.create("commit/below/y", b"")
    listed = [(entry.key, entry.size_bytes) for entry in store.list("commit")]
    assert sorted(listed) == [("commit/0", 0), *((f"commit/{n}", n) for n in range(1, 5)), ("commit/below/y", 0)]
    assert store.names("commit") == ["0", "1", "2", "3", "4", "below"]
    after = [entry.key for entry in store.list("commit", after="commit/2")]
    assert sorted(after) == ["commit/3", "commit/4", "commit/below/y"]
    before = store.head("commit/4")
    store.replace("commit/4", b"else")
    assert before.version != store.head("commit/4").version


def test_deleted_files_are_gone_and_the_others_stay(store):
    for key in ("a/1", "a/2", "b"):
        store.create(key, b"x")
    store.delete(["a/1", "b", "c"])
    assert [entry.key for entry in store.list()] == ["a/2"]


def test_the_pieces_of_a_file_are_the_file(store):
    content = bytes(range(256)) * 50_000
    store.create("a", content)
    assert b"".join(store.stream("a")) == content
    with pytest.raises(FileNotFoundError):
        list(store.stream("b"))
