"""`solfa.encode`: from a source of audio to a finished dataset, however often it is interrupted.

read settings ──► freeze the plan ──► run encoders until every shard is committed ──► pin a manifest
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from solfa.audio.recording import AudioSource
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.dataset_config import heard_by
from solfa.audio.sources.peeked_source import PeekedSource
from solfa.codecs.codec_memory import CodecFacts, CodecMemory
from solfa.codecs.default_name import DEFAULT_CODEC
from solfa.config import parse_config
from solfa.encoding.executors.executor_choice import ExecutorName, choose_workforce
from solfa.encoding.failure_limit import FailureLimit
from solfa.encoding.fingerprint import (
    DEFAULT_SEGMENT_SECONDS,
    EncodeSettings,
    dataset_info,
    default_batch_seconds,
    differences,
)
from solfa.encoding.frozen_plan import PlanningReport, extend_plan, refuse_strangers_to_come
from solfa.encoding.progress import EncodeReport, Listener, Silence, Totals
from solfa.encoding.shared_plan import plan_together
from solfa.encoding.source_summary import SourceSummary, summarize_source
from solfa.encoding.supervision import SupervisedRun, encode_until_committed
from solfa.environment.collector import collector_paused
from solfa.errors import ConfigError, SolfaError
from solfa.files.printable_names import escape_path
from solfa.files.stores.place import Place, read_place
from solfa.store.completion import finish
from solfa.store.layout import create_info, expect_new_dataset, expect_real_folders, is_dataset, read_info
from solfa.store.requests import Requests
from solfa.store.retries import standing_failures
from solfa.store.schema import Commit, DatasetInfo, DType
from solfa.store.shard_reader import FailedClip

if TYPE_CHECKING:
    from solfa.codecs.inference import Precision
    from solfa.codecs.protocol import Codec


def encode(
    source: str | Path | AudioSource,
    dest: str | Place,
    *,
    codec: "str | Path | Codec | None" = None,
    device: str = "auto",
    precision: "Precision | None" = None,
    dtype: DType | None = None,
    segment_seconds: float | None = None,
    batch_seconds: float | None = None,
    num_workers: int | None = None,
    num_encoders: int | None = None,
    max_failed: str | int | None = None,
    limit: int | None = None,
    retry_failed: bool = False,
    audio_root: str | Path | None = None,
    trust_code: bool = False,
    fingerprints: bool = True,
    executor: ExecutorName = "local",
    ray_address: str | None = None,
    encoder_cpus: float | None = None,
    encoder_gpus: float | None = None,
    listener: Listener | None = None,
) -> EncodeReport:
    """Encode a collection of audio into a dataset; call it again to resume, or to append new recordings.

    Settings left at None are those of the dataset if it exists, otherwise the defaults: the codec that ships with
    Solfa, 30 s segments, and as much audio at once as suits the device. `max_failed` ("1%" or a count) stops the run if
    more recordings than that cannot be read. `retry_failed` tries clips that failed earlier again, as new shards. The
    `custom_metadata_module` of a dataset config runs only with `trust_code`. Several processes may call this with the
    same `dest` at once. With `fingerprints`, what every clip sounds like is stored beside it, about 1 kB for 10 s, by
    which copies are found.

    With `executor="ray"` the encoders are placed on the nodes of a Ray cluster that is already running, at
    `ray_address` (HOST:PORT; otherwise RAY_ADDRESS, or the one of this machine). Each takes `encoder_cpus` and
    `encoder_gpus` of a node. Every node sees `source` and `dest` at the same paths; `codec` is a name or a path.

    >>> import solfa
    >>> report = solfa.encode("audio/", "waves.solfa", codec=solfa.load_codec("mulaw"))
    >>> report.clips, [failed.id for failed in report.failures]
    (7, ['broken.wav'])
    >>> solfa.encode("audio/", "waves.solfa").new_clips  # everything is there
    0
    """
    started = time.monotonic()
    listener = listener or Silence()
    if not str(dest):
        raise ConfigError("`dest`: expected a path, found nothing; is a variable unset?")
    root = read_place(dest)
    failure_limit = FailureLimit.parse(max_failed)
    if limit is not None and limit < 1:
        raise ConfigError(f"`limit`: expected at least 1 clip, found {limit}")
    described = escape_path(source) if isinstance(source, str | Path) else repr(type(source))
    if isinstance(source, str | Path):
        source = open_source(source, audio_root=_path(audio_root), trust_code=trust_code, on_listed=listener.listing)
    if executor != "local" and codec is not None and not isinstance(codec, str | Path):
        raise ConfigError(f"`executor={executor}`: other machines cannot have your codec object; pass a name or a path")
    load: Callable[[], Codec | CodecFacts] = partial(_load, root, codec, precision)
    with ThreadPoolExecutor(1, thread_name_prefix="codec") as beside:
        if executor == "ray":  # to connect to a cluster is mostly to wait
            load = beside.submit(load).result
        workforce = choose_workforce(
            executor,
            device,
            num_encoders,
            num_workers,
            ray_address=ray_address,
            encoder_cpus=encoder_cpus,
            encoder_gpus=encoder_gpus,
        )
    with workforce.connection:
        loaded = load()
        recordings = PeekedSource(heard_by(source, loaded.sample_rate, loaded.num_channels))
        is_new = not is_dataset(root)
        info = settle_info(root, recordings, loaded, workforce.encoders.device, segment_seconds, batch_seconds, dtype)
        listener.settled(info, is_new=is_new)
        workforce.executor.expect_ready(root, recordings.root)
        refuse_strangers_to_come(root, recordings)
        plan = partial(extend_plan, root, recordings, info.array, float(info.parts["segment_seconds"]))
        planning = plan_together(
            root,
            [described, escape_path(str(recordings.root)), limit, retry_failed],
            workforce.encoders.rank,
            lambda: plan(limit=limit, retry_failed=retry_failed, on_recordings=listener.planning),
            listener.waiting,
        )
        in_process = loaded is codec
        run = SupervisedRun(
            root, info, recordings.root, loaded, workforce.encoders, in_process, workforce.executor, fingerprints
        )
        tallies = encode_until_committed(run, failure_limit, listener)
    found = _finish(root, info)
    totals = tallies.settle(found.commits, info.array.sample_rate)
    return _report(root, found, totals, planning, time.monotonic() - started)


def _load(root: Place, codec: "str | Path | Codec | None", precision: "Precision | None") -> "Codec | CodecFacts":
    """Load a codec, or recall what it says of itself: who encodes with it loads it in another process."""
    chosen = codec_of(root) if codec is None else codec
    if not isinstance(chosen, str | Path):
        return chosen
    memory = CodecMemory(str(chosen), precision)
    recalled = memory.recall()
    if recalled is not None:
        return recalled
    with collector_paused():
        from solfa.codecs.catalogue import load_codec  # here, because torch takes longer to import than all the rest

    loaded = load_codec(chosen, precision=precision)
    memory.remember(CodecFacts.of(loaded))
    return loaded


def codec_of(dest: str | Place) -> str:
    """Return the codec of a dataset, or the default if the dataset does not exist yet."""
    root = read_place(dest)
    return read_info(root).codec if is_dataset(root) else DEFAULT_CODEC


def _path(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def settle_info(
    root: Place,
    source: PeekedSource,
    codec: "Codec | CodecFacts",
    device: str,
    segment_seconds: float | None = None,
    batch_seconds: float | None = None,
    dtype: DType | None = None,
) -> DatasetInfo:
    """Create dataset.json, or check that the existing one has the requested settings."""
    expect_real_folders(root)  # before hours of work that could not be stored
    existing = read_info(root) if is_dataset(root) else None
    if existing is None:
        expect_new_dataset(root)
        if source.is_empty():
            raise ConfigError(f"{source.root}: expected audio files, found none; `solfa encode --help` lists sources")
    before = existing.parts if existing else {}
    values = {
        "segment_seconds": _first(segment_seconds, before.get("segment_seconds"), DEFAULT_SEGMENT_SECONDS),
        "batch_seconds": _first(batch_seconds, before.get("batch_seconds"), default_batch_seconds(device)),
        "dtype": dtype or (existing.array.dtype if existing and existing.array.kind == codec.kind else None),
    }
    settings = parse_config(EncodeSettings, values, "settings")
    wanted = dataset_info(codec, settings)
    info = existing or create_info(root, wanted)
    if info.fingerprint != wanted.fingerprint:
        listed = "; ".join(differences(info.parts, wanted.parts))
        raise ConfigError(
            f"{root}: was made with different settings: {listed}; nothing was changed; use the dataset's settings or "
            "another `dest`"
        )
    return info


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


class _Found(NamedTuple):
    """What a finished dataset holds."""

    info: DatasetInfo
    commits: Sequence[Commit]
    failures: list[FailedClip]
    source: SourceSummary


def _finish(root: Place, info: DatasetInfo) -> _Found:
    with Requests(root) as requests:
        source = requests.begin(summarize_source, root, info.array)
        manifest = finish(root)
        if manifest is None:
            raise SolfaError(
                f"{root}: some shards are missing and nobody is working on them; run the same command again"
            )
        return _Found(info, manifest.commits, standing_failures(root, manifest.commits, info.array), source())


def _report(
    root: Place, found: _Found, totals: Totals, planning: PlanningReport, elapsed_seconds: float
) -> EncodeReport:
    info, commits, failures, source = found
    return EncodeReport(
        dataset=root,
        codec=info.codec,
        clips=sum(commit.num_clips for commit in commits),
        failed=len(failures),
        failures=failures,
        seconds=sum(commit.num_samples for commit in commits) / info.array.sample_rate,
        num_frames=sum(commit.num_frames for commit in commits),
        num_bytes=sum(commit.data.size_bytes + commit.meta.size_bytes for commit in commits),
        raw_bytes=source.pcm_bytes,
        new_clips=totals.clips,
        elapsed_seconds=elapsed_seconds,
        encode_seconds=totals.span_seconds,
        new_seconds=totals.seconds,
        codec_share=totals.codec_seconds / totals.wall_seconds if totals.wall_seconds else 0.0,
        changed=planning.changed,
        unplaced=planning.unplaced,
        resampled=source.resampled,
        mixed_down=source.mixed_down,
        sidecar_faults=source.sidecar_faults,
        kind=info.array.kind,
        sample_rate=info.array.sample_rate,
        num_channels=info.array.num_channels,
    )
