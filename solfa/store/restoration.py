"""Restore the records of a dataset from each other: commits from the manifests that pin them, manifests from commits.

A commit is written down in several places: in its own file and in every manifest since. Where they contradict each
other, the one that the shard's files agree with is right.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from solfa.errors import StoreError
from solfa.files.stores.place import Place
from solfa.store.completion import finish, make_manifest
from solfa.store.layout import (
    commit_key,
    committed_shards,
    manifest_key,
    manifests,
    plan_parts,
    read_commit,
    read_info,
    read_manifest,
    replace_record,
)
from solfa.store.plan_file import list_shards, plan_record
from solfa.store.schema import Commit, Manifest

MAX_DAMAGED_DIGITS = 8
"""Two hashes that differ in no more digits are one hash, damaged where it was written down."""


class Repair(NamedTuple):
    """One file that was put in order, and how."""

    path: str
    how: str


@dataclass(frozen=True)
class Claims:
    """What commit files and manifests say of every shard, as often as they say it."""

    of_shard: Mapping[int, Sequence[Commit]]

    @classmethod
    def read(cls, root: Place) -> "Claims":
        """Gather what can be read; verification reports what cannot."""
        found: dict[int, list[Commit]] = {}
        for shard in committed_shards(root):
            with suppress(StoreError):
                found.setdefault(shard, []).append(read_commit(root, shard))
        for manifest in own_manifests(root).values():
            for commit in manifest.commits:
                found.setdefault(commit.shard, []).append(commit)
        return cls(found)

    def distinct(self, shard: int) -> list[Commit]:
        """List what is said of a shard, without repetitions."""
        said: list[Commit] = []
        for commit in self.of_shard.get(shard, ()):
            if commit not in said:
                said.append(commit)
        return said

    def choose(self, shard: int, is_sound: Callable[[Commit], bool]) -> Commit | None:
        """Choose the commit that the files agree with, if need be the most common; None if nothing tells."""
        distinct = self.distinct(shard)
        if len(distinct) <= 1:
            return distinct[0] if distinct else None
        ranked = sorted(filter(is_sound, distinct), key=self._support, reverse=True)
        if not ranked or (ranked[1:] and self._support(ranked[0]) == self._support(ranked[1])):
            return None
        return ranked[0]

    def _support(self, commit: Commit) -> tuple[int, int]:
        """Count who says the same, and how many commits of other shards were made by the same versions.

        Of two commits that both fit the files, only what made them can be damaged.
        """
        others = [other for shard, said in self.of_shard.items() if shard != commit.shard for other in said]
        alike = sum(other.made_by == commit.made_by for other in others)
        return list(self.of_shard[commit.shard]).count(commit), alike


def own_manifests(root: Place) -> dict[int, Manifest]:
    """Read the manifests that can be read, without those of another dataset."""
    fingerprint, found = read_info(root).fingerprint, {}
    for number in manifests(root):
        with suppress(StoreError):
            manifest = read_manifest(root, number)
            if _is_nearly(manifest.fingerprint, fingerprint):
                found[number] = manifest
    return found


def _is_nearly(one: str, other: str) -> bool:
    return len(one) == len(other) and sum(a != b for a, b in zip(one, other, strict=True)) <= MAX_DAMAGED_DIGITS


def expect_sound_plan(root: Place) -> None:
    """Refuse a plan that is not the one that manifests pin: nothing can be made again from it."""
    list_shards(root)
    pinned = own_manifests(root).values()
    for part in range(max((len(manifest.plans) for manifest in pinned), default=0)):
        found = plan_record(root, part).file.sha256
        said = [manifest.plans[part].file.sha256 for manifest in pinned if len(manifest.plans) > part]
        if not any(_is_nearly(sha256, found) for sha256 in said):
            raise StoreError(f"plan/{part:05d}.parquet is damaged, and what a shard holds follows from the plan")


def restore_commits(root: Place, shards: Collection[int], is_sound: Callable[[Commit], bool]) -> Iterator[Repair]:
    """Write the commits of some shards again where they are missing, damaged or contradicted."""
    claims = Claims.read(root)
    for shard in sorted(shards):
        chosen = claims.choose(shard, is_sound)
        if chosen is not None and _written_commit(root, shard) != chosen:
            replace_record(root, commit_key(shard), chosen)
            yield Repair(f"commit/{shard:05d}.json", "restored from a manifest")


def _written_commit(root: Place, shard: int) -> Commit | None:
    with suppress(StoreError):
        return read_commit(root, shard)
    return None


def restore_manifests(root: Place, is_sound: Callable[[Commit], bool]) -> Iterator[Repair]:
    """Rebuild manifests from the commits; where commits are missing or in doubt, leave them as they are."""
    claims, own, numbers = Claims.read(root), own_manifests(root), manifests(root)
    settled = {
        shard for shard in claims.of_shard if claims.choose(shard, is_sound) == _written_commit(root, shard) is not None
    }
    unsettled = [shard.part for shard in list_shards(root) if shard.shard not in settled]
    everything = len(plan_parts(root))
    complete = min(unsettled, default=everything)
    last = max(numbers, default=0)
    known = [len(own[number].plans) if number in own else None for number in range(1, last + 1)]
    for number, num_parts in enumerate(pinned_parts(known, everything), 1):
        if num_parts is None or num_parts > complete or _is_foreign(root, number, own):
            continue
        expected = make_manifest(root, number, num_parts)
        if own.get(number) != expected:
            replace_record(root, manifest_key(number), expected)
            yield Repair(f"manifest/{number:06d}.json", "rebuilt from the commits")
    if 0 < complete == everything and _can_be_read(root, last):
        finished = finish(root)
        if finished is not None and finished.number > last:
            yield Repair(f"manifest/{finished.number:06d}.json", "rebuilt from the commits")


def _is_foreign(root: Place, number: int, own: Mapping[int, Manifest]) -> bool:
    """Say whether a manifest can be read and belongs to another dataset."""
    return number not in own and number in manifests(root) and _can_be_read(root, number)


def _can_be_read(root: Place, number: int) -> bool:
    with suppress(StoreError):
        return number == 0 or bool(read_manifest(root, number))
    return False


def pinned_parts(known: Sequence[int | None], everything: int) -> list[int | None]:
    """Fill in how many parts of the plan each manifest pins, where it follows from the others.

    Every manifest pins more parts than the one before, and the last one, if it is not known, pins everything.
    """
    filled = list(known)
    if filled and filled[-1] is None:
        filled[-1] = everything
    for index in range(len(filled)):
        before = filled[index - 1] if index else 0
        later = [place for place in range(index + 1, len(filled)) if filled[place] is not None]
        if filled[index] is None and before is not None and later:
            after = filled[later[0]]
            assert after is not None
            if before + 1 == after - (later[0] - index):
                filled[index] = before + 1
    return filled
