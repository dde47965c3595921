"""Get audio ready for training: find a dataset that was encoded from it, or encode it now.

a Solfa dataset     used as it is
audio               1. a finished dataset next to it, with the same recordings, codec and segments
                    2. otherwise a dataset in the cache, which is encoded, finished or extended as needed

If a dataset can be used as it is, the codec is not loaded. The log says what is used.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from solfa.audio.sources.choice import open_source
from solfa.codecs.catalogue import NAMES, BuiltIn, Quantized, load_codec
from solfa.codecs.same_codec import absolute_spec, is_same_codec
from solfa.codecs.spec import parse_spec
from solfa.data.sources.dset import Dset, Source
from solfa.encoding.api import encode
from solfa.encoding.progress import Listener
from solfa.encoding.recording_versions import Versions, compare_recordings, listed_versions, planned_versions
from solfa.errors import ConfigError
from solfa.experiments.run.reuse import why_not
from solfa.files.digest import value_sha256
from solfa.files.printable_names import escape_path
from solfa.spelling import plural
from solfa.store.layout import is_dataset, read_info
from solfa.store.status import read_status

log = logging.getLogger(__name__)

SMALL_BYTES = 64 << 20
"""Smaller audio is encoded in this process if the codec comes with Solfa: starting others would take longer."""


def prepare_dset(dset: Dset, cache_dir: str | Path, listener: Listener | None = None) -> Dset:
    """Turn every source into a Solfa dataset, encoding audio that has no dataset yet.

    >>> from solfa.data import Dset, HoldOut, Source
    >>> from solfa.experiments import prepare_dset
    >>> dset = Dset(train=[Source(path="audio/drums", codec="mulaw")], hold_out=HoldOut(clips=1))
    >>> prepare_dset(dset, "cache/").train[0].codec is None  # its path is a dataset in the cache now
    True
    """
    folder = Path(cache_dir)
    return dset.mapped(lambda source: prepare_source(source, folder, listener))


def prepare_source(source: Source, cache_dir: Path, listener: Listener | None = None) -> Source:
    """Turn a source into a Solfa dataset, encoding its audio if there is no dataset of it yet."""
    path = Path(source.path).expanduser()
    found = find_encoded(source, cache_dir)
    if found is not None:
        return found
    dataset, codec = cache_path(source, cache_dir), source.codec
    assert codec is not None, "find_encoded refuses audio without a codec"
    _encode(source, codec, path, dataset, _recordings(source), listener)
    return _encoded(source, dataset)


def find_encoded(source: Source, cache_dir: Path) -> Source | None:
    """Find the Solfa dataset of a source; None if its audio has yet to be encoded."""
    path = Path(source.path).expanduser()
    if is_dataset(path):
        _refuse_audio_settings(source, path)
        return source
    listed = _recordings(source)
    if source.codec is None:
        raise ConfigError(
            f"{escape_path(path)}: this is audio, and encoding it takes a codec; set e.g. codec: encodec_32khz, "
            "or give a Solfa dataset (a folder with dataset.json)"
        )
    if source.manifest is not None:
        raise ConfigError(f"{escape_path(path)}: this is audio, which has no manifest; set manifest to null")
    dataset = _dataset_beside(path, source.codec, source.segment_seconds, listed)
    if dataset is None and _is_up_to_date(cache_path(source, cache_dir), path, listed):
        dataset = cache_path(source, cache_dir)
    return None if dataset is None else _encoded(source, dataset)


def _recordings(source: Source) -> Versions:
    path = Path(source.path).expanduser()
    return listed_versions(open_source(path, audio_root=_folder(source.audio_root)))


def _encoded(source: Source, dataset: Path) -> Source:
    return source.model_copy(
        update={"path": str(dataset), "codec": None, "segment_seconds": None, "audio_root": None},
    )


def cache_path(source: Source, cache_dir: Path) -> Path:
    """Name the cached dataset of some audio after the audio, the codec and the segment length."""
    path, root = Path(source.path).expanduser().resolve(), _folder(source.audio_root)
    codec = None if source.codec is None else str(absolute_spec(source.codec))
    place = None if root is None else escape_path(root.resolve())
    key = value_sha256([escape_path(path), codec, source.segment_seconds, place])
    return cache_dir / f"{path.stem or 'audio'}-{key[:12]}.solfa"


def _folder(path: str | None) -> Path | None:
    return None if path is None else Path(path).expanduser()


def _refuse_audio_settings(source: Source, path: Path) -> None:
    for name in ("segment_seconds", "audio_root"):
        if getattr(source, name) is not None:
            raise ConfigError(f"{path}: {name} applies to audio, but this is a Solfa dataset; set it to null")
    stored = read_info(path).codec
    if source.codec is not None and not is_same_codec(source.codec, stored):
        raise ConfigError(f"{path}: encoded with {stored}, not {source.codec}; set codec to null, or to the former")


def _dataset_beside(path: Path, codec: str, segment_seconds: float | None, listed: Versions) -> Path | None:
    absolute = path.absolute()
    names = (f"{absolute.name}.solfa", f"{absolute.stem}.solfa")
    found = sorted(absolute.parent.glob("*.solfa"), key=lambda place: (place.name not in names, place.name))
    for candidate in filter(is_dataset, found):
        reason = why_not(candidate, codec, segment_seconds, listed)
        if reason is None:
            log.info("%s: using it for %s, encoded with %s", candidate, path, read_info(candidate).codec)
            touched = compare_recordings(listed, planned_versions(candidate)).touched
            if touched:
                log.warning("%s: %s modified since it was made", candidate, _counted(touched))
            return candidate
        log.info("%s: not using it for %s encoded with %s: %s", candidate, path, codec, reason)
    return None


def _is_up_to_date(dataset: Path, path: Path, listed: Versions) -> bool:
    """Say whether a cached dataset is finished and has every recording; warn about changes it cannot reflect."""
    if not is_dataset(dataset):
        return False
    found = compare_recordings(listed, planned_versions(dataset))
    for keys, what in ((found.resized + found.touched, "changed since they were encoded"), (found.gone, "gone")):
        if keys:
            log.warning(
                "%s: %s from %s %s; remove this folder to encode everything again", dataset, _counted(keys), path, what
            )
    if found.new or not read_status(dataset).is_finished:
        return False
    log.info("%s: using it for %s, encoded with %s", dataset, path, read_info(dataset).codec)
    return True


def _encode(source: Source, codec: str, path: Path, dataset: Path, listed: Versions, listener: Listener | None) -> None:
    log.info("%s: encoding %s with %s", dataset, path, codec)
    is_small = sum(size for size, _ in listed.values()) < SMALL_BYTES
    comes_with_solfa = isinstance(NAMES.get(parse_spec(codec).head), BuiltIn | Quantized)
    with _one_thread():
        report = encode(
            path,
            dataset,
            codec=load_codec(codec) if is_small and comes_with_solfa else codec,
            segment_seconds=source.segment_seconds,
            audio_root=_folder(source.audio_root),
            listener=listener,
        )
    log.info("%s: %d clips, %.1f s of audio", dataset, report.clips, report.seconds)
    if report.failed:
        first = report.failures[0]
        log.warning("%s: %d clips failed, first %s: %s", dataset, report.failed, first.id, first.error)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread, as encoder processes do, so that the result does not depend on who encodes or how many cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _counted(keys: list[str]) -> str:
    return f"{plural(len(keys), 'recording')} ({keys[0]}{', ...' if len(keys) > 1 else ''})"
