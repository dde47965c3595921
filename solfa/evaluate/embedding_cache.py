"""The embeddings of a set of recordings: computed once, by the encoder, into a dataset in the cache, and read back.

The dataset is named after the embedder's fingerprint and the files (names, sizes, times of change), so that it is made
anew if one of them changes, and found again if none did.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from solfa.audio.writer import write_audio
from solfa.codecs.embedders.protocol import Embedder
from solfa.codecs.families.embedding import EmbeddingCodec
from solfa.encoding.api import encode
from solfa.encoding.placement import one_thread
from solfa.encoding.progress import Listener
from solfa.environment.accelerator import choose_device
from solfa.errors import ConfigError
from solfa.evaluate.clip_sets import ClipSet, evaluation_cache, pair_key
from solfa.files.digest import value_sha256
from solfa.store.dataset import Dataset, open_dataset

SMALL_BYTES = 32 << 20
"""Of so much audio, the embeddings are computed before another process would have started."""
NOISE_CLIPS, NOISE_SECONDS, NOISE_LEVEL = 16, 12.0, 0.1


class FellOut(NamedTuple):
    """A recording that could not be judged, and why."""

    id: str
    reason: str


class Crew(NamedTuple):
    """Who embeds: how many processes, and where."""

    device: str = "auto"
    num_encoders: int | None = None
    num_workers: int | None = None
    listener: Listener | None = None


@dataclass(frozen=True, eq=False)
class EmbeddedSet:
    """The recordings of a set in the order of their names, and their windows one after another."""

    keys: tuple[str, ...]
    """What each recording is called; `pair_key` of its file."""
    ids: tuple[str, ...]
    frames: Float[np.ndarray, "n D"]
    owners: Int[np.ndarray, " n"]
    """Which recording a window belongs to."""
    tags: Float[np.ndarray, "n V"]
    """Log-odds of the tags of every window; V is 0 if the embedder is no tagger."""
    fell_out: tuple[FellOut, ...]
    seconds: float

    def __len__(self) -> int:
        return len(self.keys)

    def of_recordings(self, values: Float[np.ndarray, "n X"]) -> Float[np.ndarray, "R X"]:
        """Average over the windows of each recording."""
        sums = np.zeros((len(self), values.shape[1]))
        np.add.at(sums, self.owners, values)
        return np.asarray(sums / np.bincount(self.owners, minlength=len(self))[:, None])

    def select(self, rows: Sequence[int]) -> "EmbeddedSet":
        """Keep some recordings, in that order."""
        windows = [np.flatnonzero(self.owners == row) for row in rows]
        kept = np.concatenate(windows) if windows else np.zeros(0, np.int64)
        owners = np.repeat(np.arange(len(rows)), [len(found) for found in windows])
        return EmbeddedSet(
            tuple(self.keys[row] for row in rows),
            tuple(self.ids[row] for row in rows),
            self.frames[kept],
            owners,
            self.tags[kept],
            (),
            self.seconds,
        )


def embed(clips: ClipSet, embedder: Embedder | str, crew: Crew, loaded: Embedder) -> EmbeddedSet:
    """Embed a set, or read what was embedded before; `embedder` as text lets other processes load it."""
    if clips.kind == "embeddings":
        dataset = open_dataset(clips.place)
        if dataset.info.parts["codec"] != dict(loaded.description):
            raise ConfigError(
                f"{clips.place}: expected embeddings of {loaded.name} ({loaded.fingerprint[:12]}), found those of "
                f"{dataset.info.codec}; choose that as `embedder`, or pass the audio"
            )
        return read_embeddings(dataset, loaded)
    source = clips.source()
    listed = [(r.key, r.uri, r.size_bytes, r.mtime_ns, r.member) for r in source.recordings()]
    name = f"{loaded.fingerprint[:16]}-{value_sha256([str(source.root), listed])[:16]}.solfa"
    dest = evaluation_cache() / "embeddings" / name
    is_small = sum(int(size) for _, _, size, _, _ in listed) < SMALL_BYTES and crew.num_encoders is None
    is_here = not isinstance(embedder, str) or (is_small and crew.device in ("auto", "cpu") and not has_gpu())
    with one_thread() if is_here else nullcontext():
        report = encode(
            source,
            dest,
            codec=EmbeddingCodec(loaded) if is_here else EmbeddingCodec(loaded).spec,
            device="cpu" if is_here else crew.device,
            dtype="float32",
            segment_seconds=0.0,
            batch_seconds=0.0,
            num_encoders=crew.num_encoders,
            num_workers=crew.num_workers,
            fingerprints=False,
            listener=crew.listener,
        )
    if not report.clips:
        reasons = "; ".join(f"{failed.id}: {failed.error}" for failed in report.failures[:1])
        raise ConfigError(f"{clips.name}: expected recordings that can be read, found none ({reasons})")
    return read_embeddings(open_dataset(dest), loaded)


def has_gpu() -> bool:
    """Say whether `device="auto"` means something else than the CPU."""
    return choose_device("auto") != "cpu"


def read_embeddings(dataset: Dataset, embedder: Embedder) -> EmbeddedSet:
    """Read the windows of a dataset, recording by recording."""
    found: dict[str, list[tuple[int, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]] = {}
    fell_out = [FellOut(failed.id, failed.error) for failed in dataset.failures()]
    seconds = 0.0
    for clip in dataset:
        if not np.isfinite(clip.array).all():
            fell_out.append(FellOut(clip.id, "its embedding is not finite"))
            continue
        found.setdefault(clip.source["key"], []).append((clip.source["start"], clip.array))
        seconds += clip.seconds
    ids = tuple(sorted(found, key=pair_key))
    windows = [np.concatenate([part for _, part in sorted(found[key], key=lambda one: one[0])]) for key in ids]
    joined = np.concatenate([np.zeros((0, dataset.info.array.width), np.float32), *windows]).astype(np.float64)
    return EmbeddedSet(
        tuple(pair_key(key) for key in ids),
        ids,
        joined[:, : embedder.width],
        np.repeat(np.arange(len(ids)), [len(part) for part in windows]),
        joined[:, embedder.width :],
        tuple(fell_out),
        seconds,
    )


def noise_set(embedder: Embedder) -> ClipSet:
    """Write clips of white noise to the cache, once: what is as far from any collection as sound can be."""
    folder = evaluation_cache() / "noise" / f"{embedder.sample_rate}"
    length = max(round(NOISE_SECONDS * embedder.sample_rate), 2 * embedder.hop_length)
    for index in range(NOISE_CLIPS):
        path = folder / f"noise-{index:02d}-{length}.wav"
        if not path.exists():
            noise = NOISE_LEVEL * np.random.default_rng([index, length]).standard_normal((1, length))
            write_audio(path, np.clip(noise, -1.0, 1.0).astype(np.float32), embedder.sample_rate)
    return ClipSet("noise", "audio", Path(folder))
