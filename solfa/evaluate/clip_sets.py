"""What can be judged: a folder of audio, a dataset, clips in memory, or a model, each as recordings that can be read.

    FOLDER, TABLE, TAR     its files
    DATASET                decoded with its own codec, into the cache; a dataset of embeddings as it is
    clips in memory        written to the cache
    SIG, model folder      clips that it generates, into the cache: with the captions of the reference, if it takes any

What is written to the cache is named after what it was made from, and a file there is complete: a run that was killed
continues where it was.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from solfa.audio.file_types import AUDIO_EXTENSIONS, extension
from solfa.audio.recording import AudioSource
from solfa.audio.sources.choice import open_source
from solfa.audio.writer import write_audio
from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import decoding_fingerprint
from solfa.codecs.spec import parse_spec
from solfa.encoding.decoded_clips import decode_dataset
from solfa.files.cache_folder import cache_folder
from solfa.files.digest import value_sha256
from solfa.files.id_names import tree_name
from solfa.files.stores.place import Place, read_place
from solfa.generate.clip import GeneratedClip
from solfa.generate.model import Model
from solfa.generate.request import ClipRequest
from solfa.models.conditioners.set import TEXT_KINDS
from solfa.store.dataset import Dataset, open_dataset
from solfa.store.layout import is_dataset

Judged = str | Path | Dataset | Model | Sequence[GeneratedClip]
"""What `solfa.evaluate` takes: a path, a signature, an open dataset, a model, or generated clips."""

OnClip = Callable[[int, int], None]


@dataclass(frozen=True)
class ClipSet:
    """Recordings to judge, or to judge by."""

    name: str
    kind: Literal["audio", "decoded", "generated", "embeddings"]
    place: str | Path
    """What `open_source` opens; of embeddings, the dataset."""
    captions: Mapping[str, str] = field(default_factory=dict)
    """By `pair_key`."""

    def source(self) -> AudioSource:
        """Open the recordings."""
        return open_source(self.place)


def pair_key(key: str) -> str:
    """Name what a recording and its reconstruction have in common: `a/b.flac` and `a/b.flac.wav` are both `a/b`."""
    while extension(key) in AUDIO_EXTENSIONS:
        key = key[: -len(extension(key))]
    return key


def evaluation_cache() -> Path:
    """Return where embeddings, decoded and generated clips are kept: `SOLFA_CACHE_DIR/evaluate`."""
    return cache_folder() / "evaluate"


def open_place(place: str | Path) -> ClipSet:
    """Open a folder, a table, a tar or a dataset."""
    if is_dataset(read_place(place)):
        return of_dataset(open_dataset(place))
    source = open_source(place)
    return ClipSet(str(place), "audio", place, dict(_captions_of(source)))


def _captions_of(source: AudioSource) -> Iterator[tuple[str, str]]:
    for recording in source.recordings():
        if recording.caption:
            yield pair_key(recording.key), recording.caption


def of_dataset(dataset: Dataset, on_clip: OnClip = lambda done, total: None) -> ClipSet:
    """Decode a dataset's recordings into the cache; one of embeddings stays as it is."""
    captions = {pair_key(clip.source["key"]): clip.caption for clip in dataset if clip.caption}
    if parse_spec(dataset.info.codec).head == "embedder":
        return ClipSet(str(dataset.path), "embeddings", _place(dataset.path), captions)
    codec = load_codec(dataset.info.codec)
    made_from = [dataset.digest, dataset.info.fingerprint, decoding_fingerprint(codec)]
    folder = evaluation_cache() / "decoded" / value_sha256(made_from)[:20]
    decode_dataset(dataset, codec, folder, whole=True, on_clip=on_clip)
    return ClipSet(str(dataset.path), "decoded", folder, captions)


def _place(place: Place) -> str | Path:
    return place if isinstance(place, Path) else str(place)


def of_clips(clips: Sequence[GeneratedClip]) -> ClipSet:
    """Write clips to the cache."""
    content = [[clip.name, clip.sample_rate, hashlib.sha256(clip.samples().tobytes()).hexdigest()] for clip in clips]
    folder = evaluation_cache() / "clips" / value_sha256(content)[:20]
    texts = {pair_key(clip.name): _text_of(clip) for clip in clips}
    for clip in clips:
        _write(clip, folder)
    return ClipSet(f"{len(clips)} clips", "generated", folder, {key: text for key, text in texts.items() if text})


def _text_of(clip: GeneratedClip) -> str:
    conditions = clip.metadata.get("conditions")
    told = [value for value in conditions.values() if isinstance(value, str)] if isinstance(conditions, Mapping) else []
    return str(clip.metadata.get("text") or (told[0] if told else ""))


def _write(clip: GeneratedClip, folder: Path) -> None:
    path = _file_of(folder, clip.name)
    if not path.exists():
        write_audio(path, clip.samples(), clip.sample_rate)


def _file_of(folder: Path, name: str) -> Path:
    return folder / f"{tree_name(name)}.wav"


def of_model(
    model: Model,
    name: str,
    prompts: Mapping[str, str],
    *,
    num_clips: int,
    seconds: float,
    seed: int,
    on_clip: OnClip = lambda done, total: None,
) -> ClipSet:
    """Generate clips into the cache, one per prompt if the model takes texts, named as what the prompt belongs to."""
    takes_text = bool(TEXT_KINDS.intersection(model.generator.conditions.values()))
    keys = sorted(prompts)[:num_clips] if takes_text and prompts else [f"clip-{i:04d}" for i in range(num_clips)]
    texts = {key: prompts[key] for key in keys} if takes_text and prompts else {}
    made_from = [model.provenance["weights_sha256"], decoding_fingerprint(model.codec), texts, num_clips, seconds, seed]
    made_from.append(model.generator.sampling.model_dump(mode="json"))
    folder = evaluation_cache() / "generated" / value_sha256(made_from)[:20]
    requests = [ClipRequest(key, seconds, seed + index, texts.get(key)) for index, key in enumerate(keys)]
    missing = [request for request in requests if not _file_of(folder, request.name).exists()]
    # Clips are drawn in batches of one length; each depends on its own seed alone, so a rest is as good as all.
    for done, clip in enumerate(model.draw(missing) if missing else (), 1):
        _write(clip, folder)
        on_clip(done, len(missing))
    return ClipSet(name, "generated", folder, texts)
