"""Small real datasets for the tests, the same bytes every time."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from solfa.files.stores.place import read_place, store_at
from solfa.store.array_dataset import append_arrays
from solfa.store.layout import manifests
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome

P = TypeVar("P", Path, str)

HOP_LENGTH = 640
MADE_BY = {"solfa": "test"}


def codes_spec(width: int = 4, dtype: str = "uint16", codebook_size: int = 2048) -> ArraySpec:
    values: dict[str, Any] = {"kind": "codes", "width": width, "dtype": dtype, "codebook_size": codebook_size}
    return ArraySpec(**values, sample_rate=32_000, num_channels=1, hop_length=HOP_LENGTH)


def latents_spec(width: int = 4, dtype: str = "float16") -> ArraySpec:
    values: dict[str, Any] = {"kind": "latents", "width": width, "dtype": dtype}
    return ArraySpec(**values, sample_rate=32_000, num_channels=1, hop_length=HOP_LENGTH)


def info_of(spec: ArraySpec, codec: str = "mulaw") -> DatasetInfo:
    return DatasetInfo.of(codec, spec, {"codec": codec})


def random_array(spec: ArraySpec, num_frames: int, seed: int) -> np.ndarray[Any, Any]:
    """Draw an array that the dataset stores exactly."""
    rng = np.random.default_rng(seed)
    if spec.codebook_size is not None:
        return rng.integers(0, spec.codebook_size, (num_frames, spec.width)).astype(spec.numpy_dtype)
    return rng.standard_normal((num_frames, spec.width)).astype(spec.numpy_dtype)


def planned(clip_id: str, **values: Any) -> PlannedClip:
    return PlannedClip(id=clip_id, key=clip_id, uri=f"{clip_id}.wav", **values)


def stored(clip: PlannedClip, array: np.ndarray[Any, Any], **values: Any) -> Outcome:
    return Outcome(clip, array, num_samples=len(array) * HOP_LENGTH, **values)


def make_outcomes(
    spec: ArraySpec, num_frames: Sequence[int], failed: Sequence[int] = (), prefix: str = "clip"
) -> list[Outcome]:
    """Make one outcome per length; those at the indices `failed` have no array."""
    outcomes = []
    for index, frames in enumerate(num_frames):
        clip = planned(f"{prefix}/{index:03d}", caption=f"take {index}", metadata={"take": index})
        if index in failed:
            outcomes.append(Outcome(clip, error="the file is empty"))
        else:
            outcomes.append(stored(clip, random_array(spec, frames, seed=index)))
    return outcomes


def build(root: P, outcomes: Sequence[Outcome], spec: ArraySpec | None = None, clips_per_shard: int = 3) -> P:
    """Write a finished dataset to a folder or an object store."""
    append_arrays(root, info_of(spec or codes_spec()), list(outcomes), MADE_BY, clips_per_shard)
    return root


SMALL = make_outcomes(codes_spec(), [5, 1, 0, 7, 3, 2, 9, 4, 6], failed=[4])
MORE = make_outcomes(codes_spec(), [2, 3], prefix="more")


def build_in_two_steps(root: P) -> P:
    """Write two shards of SMALL and then append MORE; repeated after a crash, only what is missing is done."""
    if not manifests(read_place(root)):
        build(root, [heard(outcome) for outcome in SMALL[:5]])
    return build(root, MORE)


def heard(outcome: Outcome) -> Outcome:
    """Add landmarks to what has an array."""
    return outcome if outcome.array is None else replace(outcome, landmarks=np.arange(3, dtype=np.uint32))


def tree(root: Path, *, temporary: bool = False) -> dict[str, str]:
    """Digest every file by its relative path, and name every folder; .tmp only if asked."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if temporary or not name.startswith(".tmp"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
    return found


def bucket_tree(url: str) -> dict[str, str]:
    """Digest every object of a dataset by its key, .tmp left out."""
    store = store_at(url)
    keys = [entry.key for entry in store.list() if not entry.key.startswith(".tmp/")]
    return {key: hashlib.sha256(store.read(key)).hexdigest() for key in keys}


def files_of(found: dict[str, str]) -> dict[str, str]:
    """Leave the folders out of a tree: object stores have none."""
    return {name: digest for name, digest in found.items() if digest != "folder"}


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)
