"""Encode, and be killed while the files of one shard are on their way to a bucket and the next one is being encoded.

    python -m tests.encoding.put_in_the_air SOURCE DEST     run by test_bucket_encoding.py

The answer to the first put of data is kept back, and the report of the second shard waits for that put.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import solfa
from solfa.encoding.progress import Progress
from solfa.encoding.shard_tallies import ShardTallies
from solfa.files import BucketStore

CODEC = "mulaw:sample_rate=1000"
PATIENCE = 60.0
"""How many seconds anything may take before this ends without having been killed."""
is_on_its_way = threading.Event()
encoded: set[int] = set()
"""Shards of which a batch was encoded."""
put_new, add = BucketStore.put_new, ShardTallies.add


def put_and_keep_back(store: BucketStore, key: str, content: bytes | Path) -> bool:
    """Put an object; that data has arrived is not told."""
    created = put_new(store, key, content)
    if key.startswith("data/"):
        is_on_its_way.set()
        threading.Event().wait(PATIENCE)
    return created


def add_or_die(tallies: ShardTallies, encoder: int, progress: Progress) -> None:
    """Take in the report of a batch; die with the first one of a second shard."""
    add(tallies, encoder, progress)
    if progress.clips and progress.shard is not None:
        encoded.add(progress.shard)
    if len(encoded) == 2 and is_on_its_way.wait(PATIENCE):
        os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    BucketStore.put_new, ShardTallies.add = put_and_keep_back, add_or_die  # type: ignore[method-assign]
    solfa.encode(sys.argv[1], sys.argv[2], codec=solfa.load_codec(CODEC), segment_seconds=5.0)


if __name__ == "__main__":
    main()
