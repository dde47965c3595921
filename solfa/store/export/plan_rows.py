"""Find the plan row of a clip."""

from solfa.errors import StoreError
from solfa.files.stores.place import Place
from solfa.store.plan_file import iterate_plan_columns, list_shards, read_shard_plan
from solfa.store.planned_clip import PlannedClip


class PlanRows:
    """The rows of a plan by clip id, with one shard in memory at a time if they are read in order."""

    def __init__(self, root: Place) -> None:
        self._root = root
        self._shards = list_shards(root)
        self._next = 0
        self._rows: dict[str, PlannedClip] = {}
        self._shard_of: dict[str, int] | None = None

    def find(self, clip_id: str) -> PlannedClip:
        """Read the row of one clip."""
        while clip_id not in self._rows and self._next < len(self._shards) and self._shard_of is None:
            self._load(self._next)
        if clip_id not in self._rows:
            # Read out of order, as by a shuffled selection: from here on, look up where each clip is.
            self._shard_of = self._shard_of or self._index()
            shard = self._shard_of.get(clip_id)
            if shard is None:
                raise StoreError(f"{self._root}: clip {clip_id!r} is not in the plan; run `solfa verify`")
            self._load(shard)
        return self._rows[clip_id]

    def _load(self, shard: int) -> None:
        self._rows = {clip.id: clip for clip in read_shard_plan(self._root, self._shards[shard])}
        self._next = shard + 1

    def _index(self) -> dict[str, int]:
        groups = iterate_plan_columns(self._root, ["id"])
        return {clip_id: shard for shard, columns in enumerate(groups) for clip_id in columns["id"]}
