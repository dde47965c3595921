"""Encode lost shards apart from their dataset, and put what comes out in place if it is what was committed.

The bench is a dataset of its own in .tmp: it has the same settings and the same plan, and commits that stand for all
shards that are not lost. So encoders work on it as they work on any dataset, and a killed repair leaves only a folder
that `solfa gc` removes. A damaged file stays where it is until a whole one takes its place.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from solfa.encoding.failure_limit import FailureLimit
from solfa.encoding.progress import Listener, Totals
from solfa.encoding.supervision import SupervisedRun, encode_until_committed
from solfa.errors import Interrupted, SolfaError, StoreError
from solfa.files.stores.place import Place, store_at
from solfa.store.layout import (
    INFO_KEY,
    commit_key,
    is_committed,
    plan_key,
    plan_parts,
    read_commit,
    read_info,
    replace_record,
)
from solfa.store.lease import Lease
from solfa.store.plan_file import ShardOfPlan, list_shards, read_shard_plan
from solfa.store.restoration import Claims, Repair
from solfa.store.schema import Commit, DatasetInfo, FileRecord, record_bytes
from solfa.store.shard_reader import FailedClip, ShardReader
from solfa.store.verification import check_file


class Bench:
    """The lost shards of a dataset: which were repaired, and why the others were not."""

    def __init__(self, root: Place, lost: Mapping[int, ShardOfPlan], claims: Claims, listener: Listener) -> None:
        self._root, self._lost, self._claims, self._listener = root, lost, claims, listener
        self.repairs: list[Repair] = []
        self.reasons = {shard: reason for shard, plan in lost.items() if (reason := _never_encoded(root, plan))}
        self._left = set(lost) - self.reasons.keys()

    def encode(self, begin: Callable[[Path], SupervisedRun]) -> None:
        """Encode the shards and put them in place; an error that concerns all of them is the reason for each."""
        with self._leased(), _folder(self._root) as folder:
            self._folder = folder
            try:
                run = begin(folder)
                self._lay_out()
                encode_until_committed(run, FailureLimit(), self)
            except Interrupted:
                self._put_finished()
                raise
            except SolfaError as error:
                reason = str(error)
            else:
                reason = "it could not be encoded"
            self._put_finished()
            self.reasons |= {shard: reason for shard in self._left if shard in self._claims.of_shard}

    @contextmanager
    def _leased(self) -> Iterator[None]:
        """Keep encoders and `solfa gc` away while the shards are being encoded."""
        with ExitStack() as leases:
            for shard in sorted(self._left):
                lease = Lease.take(self._root, shard)
                if lease is None:
                    raise StoreError(f"{self._root}: somebody is working on shard {shard}; try again when it is done")
                leases.enter_context(lease)
            yield

    def _lay_out(self) -> None:
        for key in (INFO_KEY, *(plan_key(part) for part in plan_parts(self._root))):
            copy = self._folder / key
            copy.parent.mkdir(exist_ok=True)
            with copy.open("wb") as file:
                file.writelines(store_at(self._root).stream(key))
        (self._folder / commit_key(0)).parent.mkdir()
        nothing = FileRecord(name="00000.arrow", size_bytes=0, sha256="0" * 64)
        counts = {"num_clips": 0, "num_failed": 0, "num_frames": 0, "num_samples": 0}
        for shard in (plan.shard for plan in list_shards(self._root)):
            if shard not in self._left:
                stands_for = Commit(shard=shard, data=nothing, meta=nothing, made_by={}, **counts)
                (self._folder / commit_key(shard)).write_bytes(record_bytes(stands_for))

    def settled(self, info: DatasetInfo, *, is_new: bool) -> None:
        self._listener.settled(info, is_new=is_new)

    def waiting(self) -> None:
        self._listener.waiting()

    def listing(self, objects: int) -> None:
        self._listener.listing(objects)

    def planning(self, recordings: int) -> None:
        self._listener.planning(recordings)

    def loading(self, encoders: int) -> None:
        self._listener.loading(encoders)

    def encoding(self, done: Totals, clips: int, seconds: float) -> None:
        """Put what is finished in place at once: a repair that is killed later need not do it again."""
        self._put_finished()
        self._listener.encoding(done, clips, seconds)

    def _put_finished(self) -> None:
        for shard in sorted(self._left):
            if is_committed(self._folder, shard):
                self._left.remove(shard)
                self._put(read_commit(self._folder, shard))

    def _put(self, made: Commit) -> None:
        claims = self._claims.of_shard.get(made.shard, ())
        is_claimed = any((claim.data, claim.meta) == (made.data, made.meta) for claim in claims)
        damaged = [
            (folder, record)
            for folder, record in (("data", made.data), ("meta", made.meta))
            if any(check_file(self._root, folder, record))
        ]
        # If both files are there under the names that they get again, a commit that nobody else repeats is wrong.
        is_wrong = len(claims) == 1 and not damaged
        if (claims and not is_claimed and not is_wrong) or (not claims and self._unread(made)):
            self.reasons[made.shard] = self._difference(made, *claims[:1])
            return
        for folder, record in damaged:
            store_at(self._root).replace(f"{folder}/{record.name}", self._folder / folder / record.name)
            self.repairs.append(Repair(f"{folder}/{record.name}", "encoded again"))
        if not is_claimed:
            key = commit_key(made.shard)
            if not store_at(self._root).create(key, record_bytes(made)):
                replace_record(self._root, key, made)
            self.repairs.append(Repair(f"commit/{made.shard:05d}.json", "encoded again"))

    def _unread(self, made: Commit) -> list[FailedClip]:
        """List the clips that could be read when they were planned and now cannot."""
        clips = read_shard_plan(self._root, self._lost[made.shard])
        hopeless = {clip.id for clip in clips if clip.error is not None}
        failures = ShardReader(self._folder, made, read_info(self._root).array).failures()
        return [failed for failed in failures if failed.id not in hopeless]

    def _difference(self, made: Commit, claimed: Commit | None = None) -> str:
        """Say why a shard is not what was committed."""
        unread = self._unread(made)
        if unread and (claimed is None or made.num_failed > claimed.num_failed):
            more = f" and {len(unread) - 1} more" if unread[1:] else ""
            return f"{unread[0].id!r}{more} can no longer be encoded ({unread[0].error})"
        before = {} if claimed is None else claimed.made_by
        versions = [
            f"{name} {version} then, {made.made_by[name]} now"
            for name, version in before.items()
            if name in made.made_by and made.made_by[name] != version
        ]
        because = f" ({'; '.join(versions)})" if versions else ", though with the same versions on this machine"
        return f"encoding it again gives other numbers than those that were committed{because}"


@contextmanager
def _folder(root: Place) -> Iterator[Path]:
    folder = store_at(root).temporary("repair")
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _never_encoded(root: Place, plan: ShardOfPlan) -> str | None:
    """Say why a shard cannot be encoded again, if its arrays were imported."""
    clips = read_shard_plan(root, plan)
    if any(clip.error is None and clip.source_sample_rate == 0 for clip in clips):
        return "its arrays were imported and not encoded here; import it again into a new dataset"
    return None
