"""Get audio ready for training: find a dataset that was encoded from it, or encode it now.

a Solfa dataset     used as it is
arrays of others    imported into the cache (`token_folder`)
audio               1. a finished dataset next to it, with the same recordings, codec and segments
                    2. otherwise a dataset in the cache, which is encoded, finished or extended as needed; it begins
                       with the arrays of others, if there are any beside the audio

If a dataset can be used as it is, the codec is not loaded. The log says what is used.
"""

import logging
import shlex
from collections.abc import Sequence
from pathlib import Path

from solfa.audio.recording import AudioSource
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.dataset_config import UntrustedCodeError
from solfa.codecs.catalogue import NAMES, BuiltIn, WaveformClasses, load_codec
from solfa.codecs.same_codec import absolute_spec, is_same_codec
from solfa.codecs.spec import parse_spec
from solfa.data.sources.dset import Dset, Source
from solfa.encoding.api import encode
from solfa.encoding.placement import one_thread
from solfa.encoding.progress import Listener
from solfa.encoding.recording_versions import (
    Differences,
    Versions,
    compare_recordings,
    listed_versions,
    planned_versions,
)
from solfa.errors import ConfigError
from solfa.experiments.run.reuse import why_not
from solfa.experiments.run.token_folder import (
    import_as_source,
    import_for_audio,
    place_for_audio,
    place_of_source,
    tokens_beside,
    tokens_in,
)
from solfa.files.digest import value_sha256
from solfa.files.printable_names import escape_path
from solfa.files.stores.place import Place, expand_place
from solfa.spelling import plural
from solfa.store.failed_recordings import counted
from solfa.store.layout import is_dataset, manifests, read_info
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
    path = expand_place(source.path)
    if is_dataset(path):
        _refuse_audio_settings(source, path)
        return source
    recordings = _recordings(source, path)
    listed = listed_versions(recordings)
    tokens = tokens_in(path) if isinstance(path, Path) and path.is_dir() and not listed else None
    if tokens is not None:
        return _as_dataset(source, import_as_source(source, tokens, cache_dir))
    codec = _codec_of_audio(source, path)
    if source.use_pre_encoded is not False:
        dataset = _dataset_beside(path, codec, source.segment_seconds, listed)
        if dataset is not None:
            return _as_dataset(source, dataset)
    return _from_cache(source, codec, recordings, listed, cache_dir, listener)


def find_encoded(source: Source, cache_dir: Path) -> Source | None:
    """Find the Solfa dataset of a source, and write nothing; None if something has to be encoded or imported first."""
    path = expand_place(source.path)
    if is_dataset(path):
        _refuse_audio_settings(source, path)
        return source
    listed = listed_versions(_recordings(source, path))
    tokens = tokens_in(path) if isinstance(path, Path) and path.is_dir() and not listed else None
    if tokens is not None:
        dataset = place_of_source(source, tokens, cache_dir)
        return _as_dataset(source, dataset) if manifests(dataset) else None
    codec = _codec_of_audio(source, path)
    beside = None if source.use_pre_encoded is False else _dataset_beside(path, codec, source.segment_seconds, listed)
    if beside is not None:
        return _as_dataset(source, beside)
    tokens = tokens_beside(path) if isinstance(path, Path) and source.use_pre_encoded is not False else None
    places = [] if tokens is None else [place_for_audio(source, codec, tokens, cache_dir)]
    for dataset in (*places, cache_path(source, cache_dir)):
        if is_dataset(dataset) and read_status(dataset).is_finished:
            found = compare_recordings(listed, planned_versions(dataset))
            return None if found.new else _as_dataset(source, dataset, _settle_outdated(source, dataset, found))
    return None


def _recordings(source: Source, path: Place) -> AudioSource:
    """Open the audio of a source; settings may come from anywhere, so they never make code run."""
    try:
        return open_source(str(path), audio_root=_folder(source.audio_root))
    except UntrustedCodeError as refused:
        encoded = path.with_suffix(".solfa").name if isinstance(path, Path) else "music.solfa"
        places = f"{shlex.quote(str(path))} {shlex.quote(encoded)}"
        typed = f"`solfa encode {places} --trust-code`"
        if source.codec:
            typed = f"`solfa encode {places} --codec {shlex.quote(source.codec)} --trust-code`"
        raise ConfigError(
            f"{refused.found}, and training does not run it; read it, and if you trust it, type {typed}, and "
            f"train with dset.train={encoded}"
        ) from None


def _codec_of_audio(source: Source, path: Place) -> str:
    if source.codec is None:
        raise ConfigError(
            f"{escape_path(str(path))}: this is audio, and encoding it takes a codec; set e.g. codec: encodec_32khz, "
            "or give a Solfa dataset (a folder with dataset.json)"
        )
    if source.manifest is not None:
        raise ConfigError(f"{escape_path(str(path))}: this is audio, which has no manifest; set manifest to null")
    return source.codec


def _from_cache(
    source: Source,
    codec: str,
    recordings: AudioSource,
    listed: Versions,
    cache_dir: Path,
    listener: Listener | None,
) -> Source:
    """Use the cached dataset of some audio, which may begin with arrays found beside it; encode what it lacks."""
    path = expand_place(source.path)
    tokens = tokens_beside(path) if isinstance(path, Path) and source.use_pre_encoded is not False else None
    imported = None if tokens is None else import_for_audio(source, codec, tokens, recordings, cache_dir)
    dataset = imported or cache_path(source, cache_dir)
    planned = planned_versions(dataset) if is_dataset(dataset) else {}
    found = compare_recordings(listed, planned)
    left_out = _settle_outdated(source, dataset, found)
    if is_dataset(dataset) and not found.new and read_status(dataset).is_finished:
        log.info("%s: using it for %s, encoded with %s", dataset, path, read_info(dataset).codec)
    elif source.use_pre_encoded is True:
        lacking = f"{_counted(found.new)} not encoded" if planned else "nothing that was encoded from it"
        raise ConfigError(
            f"{escape_path(str(path))}: use_pre_encoded is true, but found {lacking}; set it to auto to encode the "
            "rest now"
        )
    else:
        _encode(source, codec, path, dataset, listed, listener)
    return _as_dataset(source, dataset, left_out)


def _as_dataset(source: Source, dataset: Path, left_out: Sequence[str] = ()) -> Source:
    defaults = Source(path=str(dataset))
    settled = ("path", "codec", "segment_seconds", "audio_root", "use_pre_encoded", "outdated")
    return source.model_copy(
        update={**{name: getattr(defaults, name) for name in settled}, "leave_out": (*source.leave_out, *left_out)}
    )


def cache_path(source: Source, cache_dir: Path) -> Path:
    """Name the cached dataset of some audio after the audio, the codec and the segment length."""
    where, root = expand_place(source.path), _folder(source.audio_root)
    path = where.resolve() if isinstance(where, Path) else Path(str(where))
    codec = None if source.codec is None else str(absolute_spec(source.codec))
    place = None if root is None else escape_path(root.resolve())
    key = value_sha256([escape_path(path), codec, source.segment_seconds, place])
    return cache_dir / f"{path.stem or 'audio'}-{key[:12]}.solfa"


def _folder(path: str | None) -> Path | None:
    return None if path is None else Path(path).expanduser()


def _refuse_audio_settings(source: Source, path: Place) -> None:
    for name in ("segment_seconds", "audio_root"):
        if getattr(source, name) is not None:
            raise ConfigError(
                f"{path}: {name} applies to audio, but this is a Solfa dataset; set it to null, or replace all "
                f"settings of the source: dset.train={path}"
            )
    if source.use_pre_encoded is False:
        raise ConfigError(f"{path}: use_pre_encoded is false, but this is a Solfa dataset; give the audio's path")
    stored = read_info(path).codec
    if source.codec is not None and not is_same_codec(source.codec, stored):
        raise ConfigError(
            f"{path}: encoded with {stored}, not {source.codec}; set codec to null to use what is there, "
            "or encode the audio again"
        )


def _dataset_beside(path: Place, codec: str, segment_seconds: float | None, listed: Versions) -> Path | None:
    if not isinstance(path, Path):
        return None
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


def _settle_outdated(source: Source, dataset: Path, found: Differences) -> list[str]:
    """Decide about recordings that are no longer what was encoded: list those to leave out, warn, or refuse."""
    if found.touched:
        log.warning(
            "%s: %s of %s changed, but not in size, since encoded; remove this folder to encode everything again",
            *(dataset, _counted(found.touched), source.path),
        )
    outdated = found.gone + found.resized
    if not outdated:
        return []
    told = f"{_counted(outdated)} of {source.path} gone or of another size since they were encoded"
    if source.outdated == "refuse":
        raise ConfigError(
            f"{dataset}: {told}; put them back, set outdated to keep or leave_out, or remove this folder to encode "
            "everything again"
        )
    log.warning(
        "%s: %s; %s",
        *(dataset, told),
        "their clips are left out"
        if source.outdated == "leave_out"
        else "what was encoded is used; set outdated to leave_out or refuse, or remove this folder to encode "
        "everything again",
    )
    return outdated if source.outdated == "leave_out" else []


def _encode(
    source: Source, codec: str, path: Place, dataset: Path, listed: Versions, listener: Listener | None
) -> None:
    log.info("%s: encoding %s with %s", dataset, path, codec)
    is_small = sum(size for size, _ in listed.values()) < SMALL_BYTES
    comes_with_solfa = isinstance(NAMES.get(parse_spec(codec).head), BuiltIn | WaveformClasses)
    with one_thread():
        report = encode(
            str(path),
            dataset,
            codec=load_codec(codec) if is_small and comes_with_solfa else codec,
            segment_seconds=source.segment_seconds,
            audio_root=_folder(source.audio_root),
            listener=listener,
        )
    log.info("%s: %d clips, %.1f s of audio", dataset, report.clips, report.seconds)
    if report.failed:
        first = report.failed_recordings[0]
        log.warning("%s: %s failed, first %s: %s", dataset, counted(report.failures), first.name, first.error)


def _counted(keys: list[str]) -> str:
    return f"{plural(len(keys), 'recording')} ({keys[0]}{', ...' if len(keys) > 1 else ''})"
