"""Which data each stage of a run uses, as a person writes it in `dset/*.yaml`.

    train: music.solfa                                   # a Solfa dataset
    valid: {path: audio/valid, codec: encodec_32khz}     # audio, which is encoded first
    evaluate: null                                       # same as valid
    generate: null                                       # same as evaluate

A stage is one source or a list of them; a path alone is a source.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PositiveFloat,
    PositiveInt,
    model_serializer,
    model_validator,
)

from solfa.config import Config
from solfa.data.sources.filters import Where
from solfa.data.sources.hold_out import HoldOut
from solfa.data.table.clip_table import ClipTable
from solfa.files.stores.place import expect_place

Stage = Literal["train", "valid", "evaluate", "generate"]


class Source(Config):
    """One source of clips: a Solfa dataset, audio and the codec to encode it with, or arrays that a codec made.

    >>> from solfa.data import Source, open_sources
    >>> len(open_sources([Source(path="music.solfa", where={"caption": {"present": True}})]))
    2
    """

    path: Annotated[str, AfterValidator(expect_place)]
    """A Solfa dataset, here or s3://BUCKET/PATH; whatever `solfa encode` takes: a folder, a table, a tar, an audio
    file; or a folder of arrays in the layout of MusicCaps' scripts or of `solfa export`."""
    codec: str | None = None
    """For audio: the codec to encode it with, e.g. `encodec_32khz` or `mulaw:sample_rate=4000`. For arrays: the codec
    that made them."""
    use_pre_encoded: bool | Literal["auto"] = "auto"
    """Whether to use what is encoded already (a dataset or arrays beside the audio): if there is any, and encode the
    rest; True: that alone; False: encode the audio."""
    segment_seconds: float | None = Field(default=None, ge=0)
    """For audio: maximum clip length; 0 keeps recordings whole, None uses the default of `solfa encode`."""
    audio_root: str | None = None
    """For a table of audio: the folder its relative paths start from."""
    outdated: Literal["keep", "leave_out", "refuse"] = "keep"
    """For audio that was encoded earlier: what to do with recordings that are gone or have another size since then."""
    leave_out: tuple[str, ...] = ()
    """Recordings whose clips are not used, by their names in the dataset."""
    table: ClipTable | None = None
    """A table that says more about the clips, e.g. captions; see `solfa.data.table.clip_table`."""
    where: Where | None = None
    """Which clips to use; see `solfa.data.sources.filters`."""
    weight: PositiveFloat | None = None
    """Its share of an epoch's clips, relative to the other sources; if None for all, every clip comes up once."""
    weight_column: str | None = None
    """A column that says how often a clip is drawn, relative to the others of this source; 1 if it is missing."""
    manifest: PositiveInt | None = None
    """For a Solfa dataset: the manifest to use; None means the latest."""

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, serialise: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Leave out settings that came later, unless they are used: runs that began without them can continue."""
        values = serialise(self)
        later = [name for name in _LATER if getattr(self, name) == type(self).model_fields[name].default]
        return {name: value for name, value in values.items() if name not in later}


_LATER = ("use_pre_encoded", "outdated", "leave_out")


def _as_list(value: Any) -> Any:
    """Turn one source, or just a path, into a list of one."""
    if isinstance(value, str | Mapping | Source):
        value = [value]
    if isinstance(value, list | tuple):
        return [{"path": item} if isinstance(item, str) else item for item in value]
    return value


Sources = Annotated[tuple[Source, ...], BeforeValidator(_as_list), Field(min_length=1)]


class Dset(Config):
    """Which data each stage of a run uses.

    >>> from solfa.data import Dset, HoldOut, Source, open_stage
    >>> dset = Dset(train=[Source(path="music.solfa")], hold_out=HoldOut(clips=1))
    >>> len(open_stage(dset, "train")) + len(open_stage(dset, "valid"))
    7
    """

    train: Sources
    valid: Sources | None = None
    hold_out: HoldOut | None = None
    """Instead of `valid`: validate on recordings that are held out of training."""
    evaluate: Sources | None = None
    """None means the same as valid."""
    generate: Sources | None = None
    """None means the same as evaluate."""
    on_leak: Literal["warn", "refuse", "ignore"] = "warn"
    """What to do if what a run validates on holds copies of what it trains on."""

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, serialise: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Leave out what came later, unless it is used: runs that began without it can continue."""
        values = serialise(self)
        return {name: value for name, value in values.items() if name != "on_leak" or value != "warn"}

    @model_validator(mode="after")
    def _one_way_to_validate(self) -> "Dset":
        if (self.valid is None) == (self.hold_out is None):
            found = "neither" if self.valid is None else "both; set dset.hold_out=null to validate on valid"
            raise ValueError(f"expected either valid or hold_out as data to validate on, found {found}")
        return self

    def mapped(self, change: Callable[[Source], Source]) -> "Dset":
        """Change every source; equal ones are changed once."""
        done: list[tuple[Source, Source]] = []

        def changed(source: Source) -> Source:
            known = next((after for before, after in done if before == source), None)
            if known is None:
                known = change(source)
                done.append((source, known))
            return known

        def of(sources: tuple[Source, ...] | None) -> tuple[Source, ...] | None:
            return None if sources is None else tuple(changed(source) for source in sources)

        stages = {name: of(getattr(self, name)) for name in ("train", "valid", "evaluate", "generate")}
        return self.model_copy(update=stages)
