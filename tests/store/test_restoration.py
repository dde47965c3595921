"""Commits and manifests restore each other; whole repairs are in tests/encoding/test_repair.py."""

import json
from pathlib import Path

import pytest
from store_maker import MORE, SMALL, build, flip_bit, tree

from solfa.errors import StoreError
from solfa.store.restoration import Claims, expect_sound_plan, own_manifests, pinned_parts, restore_commits
from solfa.store.restoration import restore_manifests as restore
from solfa.store.schema import Commit


def accept(commit: Commit) -> bool:
    return True


@pytest.mark.parametrize(
    ("known", "everything", "filled"),
    [
        ([], 3, []),
        ([None], 2, [2]),
        ([1, None], 2, [1, 2]),
        ([None, 2], 2, [1, 2]),
        ([None, None, 3], 3, [1, 2, 3]),
        ([1, None, None, 5], 5, [1, None, None, 5]),
        ([None, 3], 3, [None, 3]),
        ([2, None, 4], 4, [2, 3, 4]),
    ],
)
def test_how_much_a_lost_manifest_pinned_is_said_only_where_it_follows(
    known: list[int | None], everything: int, filled: list[int | None]
) -> None:
    assert pinned_parts(known, everything) == filled


def test_any_set_of_lost_manifests_of_one_part_each_is_rebuilt(small: Path) -> None:
    build(small, MORE)
    clean = tree(small)
    for lost in (["000001"], ["000002"]):
        for name in lost:
            (small / f"manifest/{name}.json").unlink()
        assert [repair.path for repair in restore(small, accept)] == [f"manifest/{name}.json" for name in lost]
        assert tree(small) == clean


def test_no_manifest_is_rebuilt_while_a_commit_is_missing(small: Path) -> None:
    (small / "commit/00001.json").unlink()
    (small / "manifest/000001.json").write_text("")
    before = tree(small)
    assert list(restore(small, accept)) == [] and tree(small) == before


def test_a_manifest_of_another_dataset_says_nothing_and_is_not_overwritten(small: Path) -> None:
    path = small / "manifest/000001.json"
    values = json.loads(path.read_bytes()) | {"fingerprint": "0" * 64}
    path.write_text(json.dumps(values))
    foreign = path.read_bytes()
    assert own_manifests(small) == {}
    list(restore(small, accept))
    assert path.read_bytes() == foreign


def test_of_two_commits_that_fit_the_more_common_wins_and_none_if_nothing_tells(small: Path) -> None:
    claims = Claims.read(small)
    (right,) = claims.distinct(1)
    other = right.model_copy(update={"made_by": {"solfa": "uest"}})
    doubtful = Claims({**claims.of_shard, 1: [right, other]})
    assert doubtful.choose(1, accept) == right
    assert Claims({1: [right, other]}).choose(1, accept) is None
    assert Claims({1: [right, other, other]}).choose(1, accept) == other
    assert doubtful.choose(1, lambda commit: commit == other) == other


def test_a_lost_commit_comes_from_the_manifest(small: Path) -> None:
    clean = tree(small)
    (small / "commit/00001.json").unlink()
    assert [repair.path for repair in restore_commits(small, {1}, accept)] == ["commit/00001.json"]
    assert tree(small) == clean


def test_a_hash_damaged_in_the_manifest_does_not_condemn_the_plan_but_another_plan_does(
    small: Path, tmp_path: Path
) -> None:
    manifest = small / "manifest/000001.json"
    sound = manifest.read_bytes()
    at = sound.index(b'"sha256"', sound.index(b'"plans"')) + 15
    manifest.write_bytes(sound[:at] + (b"0" if sound[at : at + 1] != b"0" else b"1") + sound[at + 1 :])
    expect_sound_plan(small)
    manifest.write_bytes(sound)
    other = build(tmp_path / "other", SMALL[:6])
    (other / "plan/00000.parquet").replace(small / "plan/00000.parquet")
    with pytest.raises(StoreError, match="plan/00000"):
        expect_sound_plan(small)


def test_a_flipped_bit_of_the_plan_condemns_it(small: Path) -> None:
    flip_bit(small / "plan/00000.parquet", 300, bit=1)
    with pytest.raises(StoreError, match="plan"):
        expect_sound_plan(small)
