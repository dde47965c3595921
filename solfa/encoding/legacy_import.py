"""`solfa import`: turn arrays that were encoded elsewhere into a dataset that `solfa encode` can continue.

The dataset gets the fingerprint that encoding with the same codec would give it, and every clip gets the key of its
recording in the source and its place there, so encoding skips what is there and adds the rest.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import Field

from solfa.audio.recording import AudioSource
from solfa.audio.sources.choice import open_source
from solfa.audio.sources.dataset_config import heard_by
from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec
from solfa.config import Config, parse_config
from solfa.encoding.coverage import IMPORTED_FROM
from solfa.encoding.fingerprint import EncodeSettings, dataset_info, differences
from solfa.encoding.imported_clips import ImportedClips, SourceAudio
from solfa.errors import ConfigError, StoreError
from solfa.files.stores.place import Place, read_place
from solfa.store.array_dataset import append_arrays
from solfa.store.layout import expect_new_dataset, expect_real_folders, is_dataset, read_info
from solfa.store.legacy.detection import open_legacy
from solfa.store.legacy.exported_folder import ExportedClips
from solfa.store.legacy.found_clips import ArrayLayout, LegacyClips
from solfa.store.schema import ArraySpec, DatasetInfo, DType
from solfa.store.shard_reader import FailedClip
from solfa.store.status import read_status
from solfa.version import __version__


class ArrayFacts(Config):
    """What to say about the arrays without the codec that made them."""

    kind: Literal["codes", "latents"]
    sample_rate: int = Field(ge=1)
    hop_length: int = Field(ge=1)
    codebook_size: int | None = Field(default=None, ge=2)
    width: int | None = Field(default=None, ge=1)
    """Codebooks or latent channels; None takes the number from the first array, if the layout settles the axes."""
    num_channels: int = Field(default=1, ge=1)
    dtype: DType | None = None
    """None means the smallest integer type that fits, or float32 for latents, which loses nothing."""


class ImportReport(NamedTuple):
    """What an import added."""

    dataset: Place
    layout: str
    num_clips: int
    num_failed: int
    failures: tuple[FailedClip, ...]
    """Arrays that could not be read, with the reasons; they are left out or kept as failed clips."""
    notes: tuple[str, ...]
    fingerprint: str


def import_legacy(
    legacy: str | Path,
    dest: str | Place,
    *,
    codec: str | Path | Codec | None = None,
    facts: ArrayFacts | None = None,
    layout: ArrayLayout | None = None,
    source: str | Path | AudioSource | None = None,
    segment_seconds: float | None = None,
    batch_seconds: float | None = None,
    dtype: DType | None = None,
    leave_out_failed: bool = False,
    trust_code: bool = False,
    leave_out_unmatched: bool = False,
    on_clip: Callable[[int, int], None] = lambda done, total: None,
) -> ImportReport:
    """Import a folder of encoded clips; call it again to resume, or to append new clips.

    A folder written by `solfa export` describes itself. For others, pass the `codec` that made the arrays (with the
    settings that encoding will continue with) or, without the codec, `facts`. `source` is the audio they were made
    from: it provides keys, captions and metadata. Clips that cannot be read are kept as failed clips, which encoding
    does not retry, unless `leave_out_failed`. `leave_out_unmatched` leaves out what matches no recording of `source`.
    A `custom_metadata_module` of the source runs only with `trust_code`.

    >>> import solfa
    >>> from solfa.encoding import import_legacy
    >>> from solfa.store import ExportFormat, export_dataset
    >>> _ = export_dataset(solfa.open_dataset("music.solfa"), "arrays/", ExportFormat.NPY)
    >>> import_legacy("arrays/", "again.solfa").num_clips
    7
    """
    root, found = read_place(dest), open_legacy(Path(legacy), layout)
    if isinstance(found, ExportedClips):
        given = {"codec": codec, "array facts": facts, "source": source, "segment_seconds": segment_seconds}
        _refuse_needless(legacy, {**given, "batch_seconds": batch_seconds, "dtype": dtype})
        info = found.marker.dataset
    elif codec is not None and facts is None:
        loaded = load_codec(codec) if isinstance(codec, str | Path) else codec
        info = dataset_info(loaded, _settings(root, segment_seconds, batch_seconds, dtype))
    elif facts is not None and codec is None:
        _refuse_needless(legacy, {"segment_seconds": segment_seconds, "batch_seconds": batch_seconds, "dtype": dtype})
        info = _info_from_facts(found, facts, legacy)
    else:
        raise ConfigError(
            f"{legacy}: expected either the codec that made these arrays, or their kind, sample_rate, hop_length and, "
            f"for codes, codebook_size, found {'neither' if codec is None else 'both'}; give exactly one of the two"
        )
    opened = open_source(source, trust_code=trust_code) if isinstance(source, str | Path) else source
    if opened is not None:
        opened = heard_by(opened, info.array.sample_rate, info.array.num_channels)
    audio = None if opened is None else SourceAudio(opened)
    clips = ImportedClips(found, info.array, audio, leave_out_failed, leave_out_unmatched)
    notes = ["no codec was given, so `solfa encode` cannot continue this dataset"] if facts else []
    return _import_clips(root, info, clips, notes, on_clip)


def _import_clips(
    root: Place, info: DatasetInfo, clips: ImportedClips, notes: list[str], on_clip: Callable[[int, int], None]
) -> ImportReport:
    _expect_fitting(root, info)
    _expect_readable(clips)
    before = read_status(root) if is_dataset(root) else None
    append_arrays(root, info, clips, {IMPORTED_FROM: clips.found.name, "solfa": __version__}, on_clip=on_clip)
    after = read_status(root)
    return ImportReport(
        dataset=root,
        layout=clips.found.name,
        num_clips=after.stored_clips - (before.stored_clips if before else 0),
        num_failed=after.failed_clips - (before.failed_clips if before else 0),
        failures=tuple(clips.failures.values()),
        notes=(*notes, *clips.found.notes, *clips.notes()),
        fingerprint=info.fingerprint,
    )


def _refuse_needless(legacy: str | Path, given: dict[str, object]) -> None:
    needless = [name for name, value in given.items() if value is not None]
    if needless:
        raise ConfigError(f"{legacy}: {', '.join(needless)}: cannot be set for these arrays; leave it out")


def _settings(
    root: Place, segment_seconds: float | None, batch_seconds: float | None, dtype: DType | None
) -> EncodeSettings:
    """Fill in missing settings from the dataset if it exists, as encoding does."""
    existing = read_info(root) if is_dataset(root) else None
    defaults = EncodeSettings()
    before = existing.parts if existing else {}
    return EncodeSettings(
        segment_seconds=before.get("segment_seconds", defaults.segment_seconds)
        if segment_seconds is None
        else segment_seconds,
        batch_seconds=before.get("batch_seconds", defaults.batch_seconds) if batch_seconds is None else batch_seconds,
        dtype=dtype or (existing.array.dtype if existing else None),
    )


def _info_from_facts(found: LegacyClips, facts: ArrayFacts, legacy: str | Path) -> DatasetInfo:
    width = facts.width or found.guess_width()
    if width is None:
        raise ConfigError(
            f"{legacy}: the number of codebooks or latent channels is ambiguous; give `width` or `layout`"
        )
    default: DType = "float32"
    if facts.codebook_size is not None:
        default = "uint16" if facts.codebook_size <= 1 << 16 else "uint32"
    values = {**facts.model_dump(), "width": width, "dtype": facts.dtype or default}
    spec = parse_config(ArraySpec, values, "array facts")
    return DatasetInfo.of("unknown", spec, {"codec": {"name": "unknown", "imported_from": found.name}})


def _expect_fitting(root: Place, info: DatasetInfo) -> None:
    """Refuse a folder with other contents, or with links, before anything is written."""
    expect_real_folders(root)
    if is_dataset(root):
        existing = read_info(root)
        if existing.fingerprint != info.fingerprint:
            listed = "; ".join(differences(existing.parts, info.parts))
            raise ConfigError(f"{root}: was made with different settings: {listed}; nothing was changed")
    else:
        expect_new_dataset(root)


def _expect_readable(clips: ImportedClips) -> None:
    """Refuse a folder where nothing fits: it is the wrong codec or the wrong folder."""
    if isinstance(clips.found, ExportedClips):
        return
    if clips.leave_out_unmatched and next(iter(clips), None) is None and clips.unmatched:
        raise StoreError(f"none of the clips match a recording, first {min(clips.unmatched)}; nothing was imported")
    reasons: list[str] = []
    for outcome in clips.found.outcomes(clips.spec):
        if outcome.array is not None:
            return
        reasons = [*reasons[:1], outcome.error or "unknown"]
    told = f" (first and last reason: {'; '.join(reasons)})" if reasons else ""
    raise StoreError(f"none of the clips could be read{told}; nothing was imported")
