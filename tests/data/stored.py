"""Small stored datasets for the tests, with metadata to select by."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from solfa.store.array_dataset import append_arrays
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome


class Described(NamedTuple):
    """One clip to store: random codes, of which only the length is chosen."""

    id: str
    num_frames: int = 10
    caption: str | None = None
    metadata: Mapping[str, Any] = {}
    recording: str | None = None
    """None is the id: the clip is all of it."""


def spec_of(**changes: Any) -> ArraySpec:
    values = {"kind": "codes", "width": 2, "codebook_size": 64, "sample_rate": 100, "num_channels": 1}
    return ArraySpec(**{**values, "hop_length": 10, "dtype": "uint16", **changes})


def store(root: Path, clips: Sequence[Described], codec: str = "none", seed: int = 0, **spec: Any) -> Path:
    array, rng = spec_of(**spec), np.random.default_rng(seed)
    outcomes = []
    for clip in clips:
        planned = PlannedClip(clip.id, clip.recording or clip.id, clip.id, caption=clip.caption, metadata=clip.metadata)
        codes = rng.integers(0, 64, (clip.num_frames, array.width))
        outcomes.append(Outcome(planned, codes, num_samples=clip.num_frames * array.hop_length))
    append_arrays(root, DatasetInfo.of(codec, array, {"codec": codec}), outcomes, {}, clips_per_shard=3)
    return root


def store_built_in_latents(root: Path) -> Path:
    """Store six clips of noise as latents of the codec that ships with Solfa, each with a caption."""
    spec = "solfa_24khz:latents=true"
    array = ArraySpec(kind="latents", width=64, sample_rate=24_000, num_channels=1, hop_length=320, dtype="float32")
    rng = np.random.default_rng(0)
    outcomes = []
    for index in range(6):
        planned = PlannedClip(f"{index}.wav", f"{index}.wav", f"{index}.wav", caption="a b")
        outcomes.append(
            Outcome(planned, rng.standard_normal((30, array.width)).astype(np.float32) * 3, num_samples=30 * 320)
        )
    append_arrays(root, DatasetInfo.of(spec, array, {"codec": spec}), outcomes, {}, clips_per_shard=6)
    return root


def numbered(count: int, prefix: str = "clip", num_frames: int = 10) -> list[Described]:
    return [Described(f"{prefix}{index:03d}.wav", num_frames) for index in range(count)]
