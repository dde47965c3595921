"""Datasets with everything that is hard to carry: odd ids, segments, scales, failures, several shards and parts."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from solfa.store.array_dataset import append_arrays
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import ArraySpec, DatasetInfo
from solfa.store.shard_writer import Outcome
from tests.disks import no_waiting_for_disks  # noqa: F401

CODES = ArraySpec(
    kind="codes", width=4, codebook_size=2048, sample_rate=32000, num_channels=1, hop_length=640, dtype="uint16"
)
WIDE_CODES = CODES.model_copy(update={"codebook_size": 1 << 20, "dtype": "uint32"})
LATENTS = ArraySpec(kind="latents", width=6, sample_rate=44100, num_channels=2, hop_length=2048, dtype="float16")
FLOATS = LATENTS.model_copy(update={"dtype": "float32"})
SPECS = {"codes": CODES, "wide codes": WIDE_CODES, "latents": LATENTS, "floats": FLOATS}

IDS = [
    "drums/kick.wav",
    "drums/kick",  # as a file, drums/kick.npy
    "drums/kick.npy/inside.wav",  # whose folder would be that file
    "../outside.wav",
    "/absolute.wav",
    ".hidden",
    "100%25.wav",
    "Chöre/übung 1.flac",
    "long/" + "x" * 400,
    "song.mp3@00030.000",
    "a:b*c?.wav",
    "-0Gj8-vB1q4",
]


def _array(spec: ArraySpec, rng: np.random.Generator, num_frames: int) -> np.ndarray:
    if spec.codebook_size is not None:
        return rng.integers(0, spec.codebook_size, (num_frames, spec.width)).astype(spec.dtype)
    array = rng.standard_normal((num_frames, spec.width)).astype(spec.dtype)
    array[0, 0] = -0.0
    return array


def _outcome(index: int, clip_id: str, spec: ArraySpec, rng: np.random.Generator) -> Outcome:
    # The sixth is square: only the layout can tell its axes apart.
    num_frames = spec.width if index == 5 else 3 + 7 * index
    num_samples = num_frames * spec.hop_length - index
    clip = PlannedClip(
        id=clip_id,
        key=clip_id.partition("@")[0],
        uri=f"music/{index}.wav",
        size_bytes=10_000 + index,
        mtime_ns=1_700_000_000_123_456_789 + index,
        member=f"m{index}.wav" if index % 3 == 0 else None,
        member_offset=512 * index if index % 3 == 0 else 0,
        member_size=77 if index % 3 == 0 else 0,
        start=index * 44100,
        stop=index * 44100 + 1000,
        num_samples=num_samples,
        source_sample_rate=44100,
        source_num_channels=2,
        source_num_samples=44100 * 60 + index,
        source_format="WAV/PCM_16",
        caption=None if index % 4 == 0 else f"a “kick” № {index}\nloud",
        metadata={} if index == 1 else {"path": "mine", "tags": ["a", None, 1.5], "n": {"ü": index}, "index": -1},
    )
    if index in (2, 7):
        return Outcome(clip, error=f"cannot be decoded, number {index}")
    scales = np.array([0.1, 1 / 3, index], np.float32) if index % 2 else None
    return Outcome(clip, _array(spec, rng, num_frames), num_samples, scales)


def make_dataset(root: Path, spec: ArraySpec, seed: int = 0) -> Dataset:
    rng = np.random.default_rng(seed)
    outcomes = [_outcome(index, clip_id, spec, rng) for index, clip_id in enumerate(IDS)]
    info = DatasetInfo.of("none:bits=3", spec, {"codec": {"name": "none"}, "segment_seconds": 30.0})
    append_arrays(root, info, outcomes[:7], {"made": "here"}, clips_per_shard=3)
    append_arrays(root, info, outcomes, {"made": "here"}, clips_per_shard=3)
    return open_dataset(root)


@pytest.fixture(scope="session")
def pristine_exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One dataset of each kind, written once; tests get copies."""
    folder = tmp_path_factory.mktemp("pristine")
    return {name: make_dataset(folder / f"{name}.solfa", spec).path for name, spec in SPECS.items()}


def copy(dataset: Path, folder: Path) -> Dataset:
    return open_dataset(shutil.copytree(dataset, folder / "x.solfa"))


@pytest.fixture(params=SPECS)
def dataset(request: pytest.FixtureRequest, pristine_exports: dict[str, Path], tmp_path: Path) -> Dataset:
    return copy(pristine_exports[request.param], tmp_path)


@pytest.fixture
def codes(pristine_exports: dict[str, Path], tmp_path: Path) -> Dataset:
    return copy(pristine_exports["codes"], tmp_path)


@pytest.fixture
def latents(pristine_exports: dict[str, Path], tmp_path: Path) -> Dataset:
    return copy(pristine_exports["latents"], tmp_path)
