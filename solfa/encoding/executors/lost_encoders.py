"""Count the encoders that were lost, to tell bad luck from a shard that no encoder survives."""

from collections import Counter

from solfa.errors import SolfaError

MAX_LOST = 3
"""After this many encoders were lost over one shard, it is taken to be the shard's fault."""


class LostEncoders:
    """The encoders lost in each shard, and in a row before any had taken one."""

    def __init__(self) -> None:
        self._in_shard: Counter[int] = Counter()
        self._at_start = 0

    def took_shard(self) -> None:
        """Note that an encoder got as far as work: what was lost at the start before was bad luck."""
        self._at_start = 0

    def add(self, dest: str, shard: int | None, how: str) -> None:
        """Count a lost encoder by the shard it was in, if any; raise if a new one is likely to be lost as well."""
        if shard is None:
            self._at_start += 1
            lost, where = self._at_start, "in a row before they had taken a shard"
        else:
            self._in_shard[shard] += 1
            lost, where = self._in_shard[shard], f"in shard {shard:05d}"
        if lost >= MAX_LOST:
            raise SolfaError(
                f"{dest}: {lost} encoders were lost {where}, the last {how}; is there too little memory? Committed "
                "shards are kept, run the same command to continue"
            )
