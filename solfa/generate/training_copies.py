"""What a model was trained on, as its codec gives it back, to look whether what it generates is a copy of it.

A model that has memorised a clip repeats its codes or latents, and what they sound like decoded may be far from the
recording: generated clips are compared with decoded ones. Decoding takes a while, so the result is kept.
"""

import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from solfa.codecs.protocol import Codec, decoding_fingerprint
from solfa.config import parse_config
from solfa.data.copies.copy_search import Copy, CopyFinder
from solfa.data.copies.landmark_index import LandmarkIndex
from solfa.data.sources.dset import Dset
from solfa.data.sources.stage_source import training_datasets
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.files.json_objects import parse_object
from solfa.files.whole_files import create_once
from solfa.ops.landmark_version import LANDMARKS_VERSION
from solfa.ops.landmarks import find_landmarks, pack_landmarks
from solfa.store.dataset import Dataset
from solfa.store.file_cache import FileCache
from solfa.store.landmark_file import StoredLandmarks
from solfa.xp.layout import PREPARED


def training_data(folder: Path) -> list[Dataset]:
    """Open the clips that an experiment was trained on; it is an error if nobody knows which."""
    note = folder / PREPARED
    if not note.is_file():
        raise ConfigError(
            f"{folder}: does not say which data it was trained on (exported models do not); name the folder of its "
            "experiment"
        )
    return training_datasets(parse_config(Dset, parse_object(note.read_bytes())["dset"], str(note)))


def training_finder(
    datasets: Sequence[Dataset], codec: Codec, on_clip: Callable[[int, int], None] = lambda done, total: None
) -> CopyFinder:
    """Decode training clips, or read what they sounded like when they were decoded before, to find copies of them."""
    total = sum(map(len, datasets))
    before, parts = 0, []
    for dataset in datasets:
        parts.append(_decoded(dataset, codec, lambda done, before=before: on_clip(before + done, total)))  # type: ignore[misc]
        before += len(dataset)
    together = StoredLandmarks.join(parts)
    ids = [clip_id for dataset in datasets for clip_id in dataset.ids()]
    name = ", ".join(str(dataset.path) for dataset in datasets)
    return CopyFinder(name, ids, together, LandmarkIndex.build(lambda: [together]))


def _decoded(dataset: Dataset, codec: Codec, on_clip: Callable[[int], None]) -> StoredLandmarks:
    name = value_sha256(["decoded", dataset.digest, decoding_fingerprint(codec), LANDMARKS_VERSION])
    cache = FileCache.choose().folder.parent / "landmarks"
    path = cache / f"{name}.npz"
    if not path.exists():
        found = []
        for number, clip in enumerate(dataset, 1):
            audio = codec.decode(clip).float().cpu().numpy()
            found.append(pack_landmarks(find_landmarks(audio, codec.sample_rate)))
            on_clip(number)
        content = io.BytesIO()
        starts = np.cumsum([0, *map(len, found)]).astype(np.int64)
        np.savez(content, numbers=np.concatenate([np.zeros(0, np.uint32), *found]), starts=starts)
        create_once(cache, path, content.getvalue())
    with np.load(path, allow_pickle=False) as stored:
        numbers, starts = stored["numbers"], stored["starts"]
    return StoredLandmarks(numbers, starts, np.ones(len(starts) - 1, np.bool_))


def spell_nearest(nearest: Copy | None) -> str:
    """Say which training clip a generated one is nearest to, and whether it is a copy."""
    if nearest is None:
        return "like no training clip"
    place = f"{nearest.id} at {max(0.0, nearest.offset_seconds + nearest.start_seconds):.1f} s"
    return f"a copy of {place}" if nearest.is_copy else f"nearest to {place}, and no copy"
