"""Open the Solfa datasets of a stage as one source of clips that a loader takes."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from solfa.data.copies.shared_content import Leak, content_groups, find_leak
from solfa.data.sources.clip_group import ClipGroup
from solfa.data.sources.clip_source import ClipSource, DrawWeights, SourceClip
from solfa.data.sources.columns import STORED_COLUMNS, ClipColumns
from solfa.data.sources.dset import Dset, Source, Stage
from solfa.data.sources.filters import kept_clips
from solfa.data.sources.hold_out import HoldOut, Side, on_side
from solfa.data.sources.mixture import Mixture, MixturePart
from solfa.data.stable_random import stable_key
from solfa.data.table.clip_table import ClipTable
from solfa.data.table.joined_clips import JoinedClips, JoinedRows
from solfa.data.table.row_match import join_table
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.files.stores.place import Place, expand_place
from solfa.store.dataset import Dataset, Verify, open_dataset
from solfa.store.layout import manifests, read_info, read_manifest
from solfa.store.remote_files import RemoteFiles
from solfa.store.schema import ArraySpec, DatasetInfo

log = logging.getLogger(__name__)

SAME_IN_ALL = ("kind", "width", "codebook_size", "sample_rate", "hop_length")
"""What must agree for arrays to share a batch and mean the same."""


@dataclass(frozen=True)
class _Opened:
    source: Source
    dataset: Dataset
    columns: ClipColumns

    @property
    def clips(self) -> ClipSource:
        joined = self.columns.joined
        return self.dataset if joined is None else JoinedClips(self.dataset, joined)

    def keep(self, kept: Bool[np.ndarray, "clips"]) -> "_Opened":
        if kept.all():
            return self
        rows = np.flatnonzero(kept)
        return _Opened(self.source, self.dataset.select(rows), self.columns.select(rows))


class OpenedSource:
    """The clips of one or several datasets, and what the datasets have in common.

    It is pickled when worker processes are spawned.
    """

    def __init__(self, opened: Sequence[_Opened], *, weighted: bool = True) -> None:
        infos = [part.dataset.info for part in opened]
        self.array: ArraySpec = infos[0].array
        self.codec: str = infos[0].codec
        """The spec of the codec that decodes the arrays."""
        prints = [info.fingerprint for info in infos]
        self.fingerprint: str = prints[0] if len(prints) == 1 else value_sha256(prints)
        self.codec_fingerprint: str | None = _codec_fingerprint(infos[0])
        """The hash of everything that changes what that codec computes, its weights included."""
        self._columns = [part.columns for part in opened]
        self._mixture = Mixture([_part(part) if weighted else MixturePart(part.clips) for part in opened])

    @property
    def digest(self) -> str:
        return self._mixture.digest

    @property
    def num_frames(self) -> Int64[np.ndarray, "clips"]:
        return self._mixture.num_frames

    @property
    def weights(self) -> DrawWeights | None:
        return self._mixture.weights

    def __len__(self) -> int:
        return len(self._mixture)

    def __getitem__(self, index: int, /) -> SourceClip:
        return self._mixture[index]

    def group(self, indices: Int64[np.ndarray, "G"], /) -> ClipGroup:
        return self._mixture.group(indices)

    def remote_files(self) -> RemoteFiles | None:
        return self._mixture.remote_files()

    def column_names(self) -> set[str]:
        """List the columns that some clip has a value in, besides those that all datasets have."""
        return {name for columns in self._columns for name in columns.names()}

    def values(self, column: str) -> list[Any]:
        """List the values of a column: `caption`, `seconds`, or a key of the metadata; reads no array.

        None for a clip without a value; a column that no clip of any dataset has is an error.
        """
        have = [column in STORED_COLUMNS or column in columns.names() for columns in self._columns]
        if not any(have):
            self._columns[0].values(column)  # the error lists the columns there are
        return [
            value
            for columns, has in zip(self._columns, have, strict=True)
            for value in (columns.values(column) if has else [None] * len(columns))
        ]


def open_sources(
    sources: Sequence[Source],
    *,
    hold_out: HoldOut | None = None,
    side: Side = "train",
    weighted: bool = True,
    num_clips: int | None = None,
    verify: Verify = "never",
) -> OpenedSource:
    """Open datasets, select their clips and combine them; with `hold_out`, only the clips of one side.

    `weighted=False` ignores all weights: every clip comes up once. `num_clips` takes at most so many of them.
    `verify` is that of `open_dataset`.

    >>> from solfa.data import Source, open_sources
    >>> drums = open_sources([Source(path="music.solfa", where={"id": {"glob": "drums/*"}})])
    >>> len(drums), drums.codec
    (2, 'solfa_24khz:num_codebooks=8')
    """
    opened = _open_side(sources, hold_out, side, verify)
    if num_clips is not None and num_clips < sum(len(part.dataset) for part in opened):
        ids = [part.columns.values("id") for part in opened]
        opened = _kept(opened, some_clips([clip_id for part in ids for clip_id in part], num_clips))
    return OpenedSource(opened, weighted=weighted)


def _open_side(sources: Sequence[Source], hold_out: HoldOut | None, side: Side, verify: Verify) -> list[_Opened]:
    opened = [_open(source, verify) for source in sources]
    expect_same_arrays([(str(part.dataset.path), part.dataset.info) for part in opened])
    if hold_out is None:
        return opened
    groups = content_groups([part.dataset for part in opened]) if hold_out.by == "content" else None
    ids = [clip_id for part in opened for clip_id in part.columns.values("id")]
    return _kept(opened, on_side(ids, hold_out, side, groups))


def training_datasets(dset: Dset) -> list[Dataset]:
    """Open what a run trains on, without what is held out."""
    return [part.dataset for part in _open_side(dset.train, dset.hold_out, "train", "never")]


def leak_of(dset: Dset) -> Leak | None:
    """Say how much of what a run validates on is in what it trains on; None if nothing is known of one of them."""
    judged = dset.train if dset.valid is None else dset.valid
    valid = _open_side(judged, None if dset.valid else dset.hold_out, "valid", "never")
    return find_leak(training_datasets(dset), [part.dataset for part in valid])


def _kept(opened: Sequence[_Opened], kept: Bool[np.ndarray, "clips"]) -> list[_Opened]:
    parts = np.split(kept, np.cumsum([len(part.dataset) for part in opened])[:-1])
    selected = [part.keep(these) for part, these in zip(opened, parts, strict=True)]
    return [part for part in selected if len(part.dataset)]


def some_clips(ids: Sequence[str], num_clips: int) -> Bool[np.ndarray, "clips"]:
    """Choose clips by a hash of their names: all over the data, and mostly the same ones after it has grown."""
    ranked = sorted(range(len(ids)), key=lambda index: (stable_key("num_samples", ids[index]), ids[index], index))
    kept = np.zeros(len(ids), bool)
    kept[ranked[:num_clips]] = True
    return kept


def _codec_fingerprint(info: DatasetInfo) -> str | None:
    # The codec's description is part of what the dataset records; its hash is the codec's fingerprint.
    return value_sha256(info.parts["codec"]) if info.parts.get("codec") else None


def open_stage(dset: Dset, stage: Stage, num_clips: int | None = None, verify: Verify = "never") -> OpenedSource:
    """Open the data of a stage, or some clips of it; those held out of training are not weighted.

    >>> from solfa.data import Dset, HoldOut, Source, open_stage
    >>> dset = Dset(train=[Source(path="music.solfa")], hold_out=HoldOut(clips=2))
    >>> len(open_stage(dset, "train")), len(open_stage(dset, "valid"))  # the clips of a recording stay together
    (3, 4)
    """
    open_some = partial(open_sources, num_clips=num_clips, verify=verify)
    if stage == "train":
        return open_some(dset.train, hold_out=dset.hold_out, side="train")
    by_choice = {"valid": [dset.valid], "evaluate": [dset.evaluate, dset.valid]}
    sources = next(
        (found for found in by_choice.get(stage, [dset.generate, dset.evaluate, dset.valid]) if found is not None), None
    )
    if sources is not None:
        return open_some(sources)
    return open_some(dset.train, hold_out=dset.hold_out, side="valid", weighted=False)


def expect_same_arrays(named: Sequence[tuple[str, DatasetInfo]]) -> None:
    """Refuse datasets whose arrays differ, by name; warn about different codecs."""
    first_name, first = named[0]
    for name, info in named[1:]:
        for field in SAME_IN_ALL:
            expected, found = getattr(first.array, field), getattr(info.array, field)
            if found != expected:
                raise ConfigError(
                    f"{name}: {field} is {found}, but in {first_name} it is {expected}; "
                    "datasets of one run must match: encode both with the same codec"
                )
        if info.parts.get("codec") != first.parts.get("codec"):
            log.warning(
                "%s was made by %s, but %s by %s: their codes look alike but may not mean the same",
                *(first_name, first.codec, name, info.codec),
            )


def _open(source: Source, verify: Verify) -> _Opened:
    root = expand_place(source.path)
    existing = manifests(root)
    number = source.manifest or (existing[-1] if existing else None)
    dataset = open_dataset(root, manifest=number, verify=verify)
    assert number is not None, "a dataset without a manifest cannot be opened"
    columns = ClipColumns(root, read_manifest(root, number).commits, dataset.info.array)
    if source.table is not None:
        columns = columns.join(_joined(source.table.pinned(), root, number, dataset.digest))
    opened = _Opened(source, dataset, columns)
    if source.leave_out:
        unwanted = frozenset(source.leave_out)
        opened = opened.keep(np.array([key not in unwanted for key in columns.recordings()], bool))
        columns = opened.columns
        if not len(columns):
            raise ConfigError(f"{root}: leave_out names all of its recordings; expected some to be left")
    return opened if source.where is None else opened.keep(kept_clips(columns, source.where))


@lru_cache(maxsize=8)
def _joined(table: ClipTable, root: Place, number: int, digest: str) -> JoinedRows:
    """Join a pinned table to a dataset, once for all stages, which share the rows in memory."""
    manifest = read_manifest(root, number)
    assert manifest.digest == digest
    columns = ClipColumns(root, manifest.commits, read_info(root).array)
    return join_table(table, columns.recordings(), str(root))


def _part(opened: _Opened) -> MixturePart:
    column = opened.source.weight_column
    return MixturePart(
        opened.clips, opened.source.weight, None if column is None else _clip_weights(opened.columns, column)
    )


def _clip_weights(columns: ClipColumns, column: str) -> Float64[np.ndarray, "clips"]:
    weights = []
    for clip_id, value in zip(columns.values("id"), columns.values(column), strict=True):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0):
            raise ConfigError(
                f"{columns.path}: weight_column {column!r} of clip {clip_id!r}: expected a number of at least 0, "
                f"found {value!r}"
            )
        weights.append(1.0 if value is None else float(value))
    return np.array(weights, np.float64)
