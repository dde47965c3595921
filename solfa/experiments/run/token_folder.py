"""Arrays that another program encoded, as a source or beside audio: imported into the cache of encoded sources, once.

    pre_encoded_audio/<ytid>.npy     with pre_encoded_metadata.json in it or beside it, from the scripts for MusicCaps
    what `solfa export` wrote        in any format

The dataset in the cache is named after the files that the folder consists of, so other files make another dataset.
"""

import logging
from pathlib import Path
from typing import NamedTuple

from solfa.audio.recording import AudioSource
from solfa.codecs.same_codec import absolute_spec, is_same_codec
from solfa.data.sources.dset import Source
from solfa.encoding.legacy_import import import_legacy
from solfa.errors import ConfigError, StoreError
from solfa.files.digest import value_sha256
from solfa.files.printable_names import escape_path
from solfa.spelling import plural
from solfa.store.export.marker import is_export, read_marker
from solfa.store.export.musiccaps import AUDIO_FOLDER
from solfa.store.layout import manifests
from solfa.store.legacy.musiccaps import metadata_path, token_files
from solfa.store.schema import DatasetInfo

log = logging.getLogger(__name__)


class Tokens(NamedTuple):
    """A folder of encoded clips."""

    root: Path
    files: tuple[Path, ...]
    info: DatasetInfo | None
    """What an export says about itself; other layouts say nothing."""

    def fingerprint(self) -> str:
        """Hash the names, sizes and times of its files."""
        return value_sha256(
            [
                (escape_path(path.absolute()), status.st_size, status.st_mtime_ns)
                for path in sorted(self.files)
                for status in [path.stat()]
            ]
        )


def tokens_in(folder: Path) -> Tokens | None:
    """Recognise a folder of encoded clips; None if it is none."""
    root = folder.parent if folder.name == AUDIO_FOLDER and is_export(folder.parent) else folder
    if is_export(root):
        return Tokens(root, tuple(path for path in root.rglob("*") if path.is_file()), read_marker(root).dataset)
    metadata = metadata_path(root) if root.is_dir() else None
    return None if metadata is None else Tokens(root, tuple(token_files(root, metadata)), None)


def tokens_beside(audio: Path) -> Tokens | None:
    """Find encoded clips in the audio's folder or next to it."""
    absolute = audio.absolute()
    return (tokens_in(absolute) if absolute.is_dir() else None) or tokens_in(absolute.parent)


def place_of_source(source: Source, tokens: Tokens, cache_dir: Path) -> Path:
    """Name the cached dataset of a folder that is a source of its own."""
    for name in ("audio_root", "manifest"):
        if getattr(source, name) is not None:
            raise ConfigError(
                f"{tokens.root}: {name} applies to audio, but these are encoded arrays; set it to null, or replace all "
                f"settings of the source: dset.train={tokens.root}"
            )
    if source.use_pre_encoded is False:
        raise ConfigError(
            f"{tokens.root}: use_pre_encoded is false, but these are encoded arrays and no audio; give the audio's path"
        )
    return cache_dir / f"{tokens.root.resolve().name}-{_key(tokens, _codec_of(source, tokens))}.solfa"


def import_as_source(source: Source, tokens: Tokens, cache_dir: Path) -> Path:
    """Import the clips of a folder that is a source of its own; return the dataset."""
    dataset = place_of_source(source, tokens, cache_dir)
    if source.segment_seconds is not None:
        # Not refused: the settings of audio are in the configs whose path people replace.
        log.info("%s: encoded arrays stay whole; segment_seconds is for audio", tokens.root)
    if manifests(dataset):
        log.info("%s: using it for the encoded clips of %s", dataset, tokens.root)
    else:
        _import(tokens, dataset, _codec_of(source, tokens), None)
    return dataset


def place_for_audio(source: Source, codec: str, tokens: Tokens, cache_dir: Path) -> Path:
    """Name the cached dataset of clips that were encoded from some audio."""
    place = escape_path(Path(source.path).expanduser().resolve())
    key = _key(tokens, codec, place, source.segment_seconds, source.audio_root)
    return cache_dir / f"{Path(place).stem or 'audio'}-{key}.solfa"


def import_for_audio(
    source: Source, codec: str, tokens: Tokens, recordings: AudioSource, cache_dir: Path
) -> Path | None:
    """Import the clips that were encoded from some audio; None, with the reason in the log, if they do not fit it."""
    if tokens.info is not None and not is_same_codec(codec, tokens.info.codec):
        log.info("%s: not using it for %s: it was encoded with %s", tokens.root, source.path, tokens.info.codec)
        return None
    dataset = place_for_audio(source, codec, tokens, cache_dir)
    if not manifests(dataset):
        try:
            _import(tokens, dataset, codec, recordings, source.segment_seconds)
        except (ConfigError, StoreError) as error:
            if source.use_pre_encoded is True:
                raise
            log.warning("%s: not using it for %s: %s", tokens.root, source.path, error)
            return None
    return dataset


def _codec_of(source: Source, tokens: Tokens) -> str:
    if tokens.info is None:
        if source.codec is None:
            raise ConfigError(
                f"{tokens.root}: these are encoded arrays, which do not say which codec made them; set it, e.g. "
                "codec: encodec_32khz, which is MusicGen's"
            )
        return source.codec
    if source.codec is not None and not is_same_codec(source.codec, tokens.info.codec):
        raise ConfigError(f"{tokens.root}: encoded with {tokens.info.codec}, not {source.codec}; set codec to null")
    return tokens.info.codec


def _key(tokens: Tokens, codec: str, *more: object) -> str:
    return value_sha256([tokens.fingerprint(), str(absolute_spec(codec)), *more])[:12]


def _import(
    tokens: Tokens,
    dataset: Path,
    codec: str,
    recordings: AudioSource | None,
    segment_seconds: float | None = None,
) -> None:
    log.info("%s: importing the encoded clips of %s", dataset, tokens.root)
    if tokens.info is not None:
        report = import_legacy(tokens.root, dataset)
    else:
        report = import_legacy(
            tokens.root,
            dataset,
            codec=codec,
            source=recordings,
            segment_seconds=segment_seconds,
            # What cannot be read is encoded from the audio, if there is any.
            leave_out_failed=recordings is not None,
            leave_out_unmatched=recordings is not None,
        )
    log.info("%s: imported %s", dataset, plural(report.num_clips, "clip"))
    for note in report.notes:
        log.info("%s: %s", tokens.root, note)
    if report.failures:
        first = report.failures[0]
        told = plural(len(report.failures), "array")
        log.warning("%s: %s could not be read, first %s: %s", tokens.root, told, first.id, first.error)
