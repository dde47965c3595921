"""The output folder: who may write to it, where items are, and when one counts as stored.

OUT/details.json           what made it; written first, compared by every later run
OUT/items.parquet          the frozen list of items, in order
OUT/silence.npy            [1, C, N], the encoding of silence
OUT/<rank>/<id>.npy        [C, N] latents or [K, N] codes
OUT/<rank>/<id>.json       written after the array: an item is stored when both are there
OUT/<rank>/failures.jsonl  written once a rank is through its items
OUT/failures.jsonl         all failures, written once every rank is done
OUT/filelist.txt           the arrays of all ranks, written with it: readers then do not take silence.npy for an item
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from solfa.encoding.fingerprint import differences
from solfa.encoding.pre_encode.items import Slot
from solfa.encoding.pre_encode.summary import FailedItem
from solfa.environment.ranks import Rank
from solfa.errors import ConfigError, StoreError
from solfa.files.crash_points import crash_point
from solfa.files.free_folder import expect_free
from solfa.files.json_objects import parse_object
from solfa.files.whole_files import (
    TEMPORARY,
    create_once,
    expect_real_folder,
    remove_files,
    replace_atomically,
)
from solfa.store.export.clip_record import json_bytes
from solfa.store.export.npy_bytes import npy_bytes
from solfa.store.export.stable_audio import FILE_LIST, file_list
from solfa.store.gc import remove_temporary, temporary_files
from solfa.store.lease import Lease, live_leases

DETAILS, FAILURES, SILENCE = "details.json", "failures.jsonl", "silence.npy"
_TORN = re.compile(r"\..+\.[0-9]+\.[0-9a-f]+")
"""Files that a killed process had not finished."""


def read_details(out: Path) -> dict[str, Any] | None:
    """Read what made a folder; None if nothing has been written yet. Folders that are not ours are refused."""
    path = out / DETAILS
    if not path.is_file():
        expected = f"a new or empty folder, or one with {DETAILS} to continue"

        def is_known(name: str) -> bool:
            # Another rank may have begun since the look above: details.json is the first file that it writes.
            return name == TEMPORARY or path.is_file()

        expect_free(out, "choose another `output_path`", expected=expected, is_ours=is_known)
        if not path.is_file():
            return None
    try:
        details = parse_object(path.read_bytes())
        is_ours = isinstance(details["solfa"]["settings"], dict) and "dataset_config" in details
    except (ValueError, TypeError, KeyError):
        is_ours = False
    if not is_ours:
        raise ConfigError(
            f"{out}: its {DETAILS} was not written by `solfa pre-encode`, so it cannot be continued; "
            "choose another `output_path` (`solfa import` can read it)"
        )
    return dict(details)


def claim_folder(out: Path, details: Mapping[str, Any]) -> None:
    """Write details.json into a new folder, or check that the folder was started with the same settings."""
    content = json_bytes(details)
    if read_details(out) is None:
        create_once(out, out / DETAILS, content)
    found = read_details(out)
    assert found is not None
    # Through JSON, so that tuples and lists compare equal.
    different = list(differences(_comparable(found), _comparable(json.loads(content))))
    if different:
        raise StoreError(
            f"{out}: was started with different settings ({'; '.join(different)}); "
            "repeat the original command or choose another `output_path`"
        )


def _comparable(details: Mapping[str, Any]) -> dict[str, Any]:
    return {"dataset_config": details["dataset_config"], **details["solfa"]["settings"]}


@contextmanager
def at_work(out: Path, rank: Rank) -> Iterator["RankFolder"]:
    """Lock this rank's folder, so that no second process writes to it; clean up after killed ones."""
    lease = Lease.take(out, rank.rank)
    if lease is None:
        raise StoreError(
            f"{out}: another process seems to be working on it as rank {rank.rank}; wait for it to finish, or wait a "
            "minute if it was killed on another machine; several processes need RANK and WORLD_SIZE"
        )
    with lease:
        folder = RankFolder(out, rank)
        folder.clean()
        yield folder
    leftovers = temporary_files(out)
    if not live_leases(out):
        remove_temporary(out, leftovers)


class RankFolder:
    """The items of one rank."""

    def __init__(self, out: Path, rank: Rank) -> None:
        self.out, self._rank = out, rank
        self.path = out / str(rank.rank)

    def clean(self) -> None:
        """Create the folder; remove temporary files, which only this rank writes here."""
        expect_real_folder(self.path)
        self.path.mkdir(parents=True, exist_ok=True)
        leftovers = [path.name for path in self.path.iterdir() if _TORN.fullmatch(path.name)]
        remove_files(self.path, leftovers)

    def stored(self) -> set[str]:
        """List the ids of the items that are complete."""
        return _stored(self.path)

    def store(self, slot: Slot, array: np.ndarray[Any, Any], description: Mapping[str, Any]) -> None:
        """Write an item, its JSON last; if the process is killed in between, the item does not count."""
        replace_atomically(self.path / f"{slot.id}.npy", npy_bytes(array))
        crash_point("pre-encode:between")
        replace_atomically(self.path / f"{slot.id}.json", _line(description))
        crash_point("pre-encode:stored")

    def store_silence(self, array: np.ndarray[Any, Any]) -> None:
        """Write the encoding of silence, once for all ranks."""
        create_once(self.out, self.out / SILENCE, npy_bytes(array))

    def finish(self, failures: Sequence[FailedItem]) -> None:
        """Write what failed; the last rank to do so writes the complete lists of what failed and what is there."""
        lines = b"".join(_line(failure._asdict()) for failure in failures)
        _put(self.path / FAILURES, lines)
        crash_point("pre-encode:before-finish")
        parts = [self.out / str(rank) / FAILURES for rank in range(self._rank.world_size)]
        if all(part.is_file() for part in parts):
            _put(self.out / FAILURES, b"".join(part.read_bytes() for part in parts))
            items = (f"{part.parent.name}/{item}" for part in parts for item in sorted(_stored(part.parent)))
            _put(self.out / FILE_LIST, file_list(items))


def _stored(folder: Path) -> set[str]:
    names = {path.name for path in folder.iterdir()}
    return {name[:-5] for name in names if name.endswith(".json") and f"{name[:-5]}.npy" in names}


def _line(value: Mapping[str, Any]) -> bytes:
    """Write a value as one line of JSON: a padding mask with one line per frame would be four times as long."""
    text = json.dumps(value, ensure_ascii=False)
    return (text + "\n").encode("utf-8", "backslashreplace")


def _put(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        replace_atomically(path, content)
