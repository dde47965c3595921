"""How the clips of each stage become batches: common sizes, and what a stage does differently.

    dataset:
      segment_seconds: 10
      batch_size: 32            # over all ranks
      num_workers: 2
      mode: {kind: crop}        # or pad, or pack
      valid: {batch_size: 8, num_samples: 200}

Training shuffles, crops at random and drops the incomplete batch; the other stages do none of this.
"""

from typing import Annotated, Literal, NamedTuple, get_args

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from solfa.config import Config
from solfa.data.batching.loader import Loader, make_loader
from solfa.data.batching.modes import Crop, Pack, Pad
from solfa.data.sources.dset import Stage
from solfa.data.sources.stage_source import OpenedSource
from solfa.errors import ConfigError
from solfa.store.dataset import Verify


class Choices(NamedTuple):
    """The resolved settings of a stage, in frames."""

    num_frames: int | None
    batch_size: int
    shuffle: bool
    random_start: bool | None
    """None if not set."""
    drop_last: bool | None
    """None if not set: drop it only if a batch remains."""


class CropRows(Config):
    """Every row is a crop of `segment_seconds` of one clip."""

    kind: Literal["crop"] = "crop"

    def build(self, choices: Choices, source: OpenedSource) -> Crop:
        """Name the mode of the loader."""
        random_start = choices.shuffle if choices.random_start is None else choices.random_start
        return Crop(
            num_frames=_needed(choices.num_frames, self.kind),
            batch_size=choices.batch_size,
            shuffle=choices.shuffle,
            random_start=random_start,
            drop_last=_drops(choices, len(source)),
        )


class PadRows(Config):
    """Every row is a whole clip, padded to the longest of its batch."""

    kind: Literal["pad"] = "pad"
    window_batches: PositiveInt = 100

    def build(self, choices: Choices, source: OpenedSource) -> Pad:
        """Name the mode of the loader."""
        _unused("segment_seconds", choices.num_frames, self.kind)
        _unused("random_start", choices.random_start, self.kind)
        return Pad(
            batch_size=choices.batch_size,
            window_batches=self.window_batches,
            shuffle=choices.shuffle,
            drop_last=_drops(choices, len(source)),
        )


class PackRows(Config):
    """Clips are laid end to end in rows of `segment_seconds`."""

    kind: Literal["pack"] = "pack"

    def build(self, choices: Choices, source: OpenedSource) -> Pack:
        """Name the mode of the loader."""
        _unused("random_start", choices.random_start, self.kind)
        num_frames = _needed(choices.num_frames, self.kind)
        return Pack(
            num_frames=num_frames,
            batch_size=choices.batch_size,
            shuffle=choices.shuffle,
            drop_last=_drops(choices, int(source.num_frames.sum()) // num_frames),
        )


class StageBatching(Config):
    """What a stage does differently; None means the common setting, or what suits the stage."""

    segment_seconds: PositiveFloat | None = None
    batch_size: PositiveInt | None = None
    num_workers: NonNegativeInt | None = None
    shuffle: bool | None = None
    random_start: bool | None = None
    drop_last: bool | None = None
    num_samples: PositiveInt | None = None
    """How many clips the stage uses, always the same ones; None means all. Not for training."""


class Batching(Config):
    """The sizes of batches, and each stage's exceptions."""

    segment_seconds: PositiveFloat | None = None
    """Length of a row for crop and pack; the dataset's frame rate turns it into frames."""
    batch_size: PositiveInt
    """Rows of a global batch, which the ranks share."""
    num_workers: NonNegativeInt = 0
    """Processes per rank that read ahead; 0 reads in the training process."""
    verify: Verify = "never"
    """`once` compares every clip with its checksum when a process first reads it, and stops at a damaged one."""
    mode: Annotated[CropRows | PadRows | PackRows, Field(discriminator="kind")] = CropRows()
    train: StageBatching = StageBatching()
    valid: StageBatching = StageBatching()
    evaluate: StageBatching = StageBatching()
    generate: StageBatching = StageBatching()

    @model_validator(mode="after")
    def _trains_on_all(self) -> "Batching":
        if self.train.num_samples is not None:
            raise ValueError(
                "dataset.train.num_samples: an epoch has optim.updates_per_epoch updates, however many clips there "
                "are; leave it out, or train on fewer clips with dset.train.where"
            )
        return self

    def of(self, stage: Stage) -> StageBatching:
        """Return the exceptions of a stage."""
        exceptions: dict[Stage, StageBatching] = {
            "train": self.train,
            "valid": self.valid,
            "evaluate": self.evaluate,
            "generate": self.generate,
        }
        return exceptions[stage]

    def rows(self, stage: Stage, source: OpenedSource) -> Crop | Pad | Pack:
        """Resolve how a stage makes batches of a source."""
        own, trains = self.of(stage), stage == "train"
        seconds = own.segment_seconds or self.segment_seconds
        choices = Choices(
            num_frames=None if seconds is None else segment_frames(seconds, source.array.frame_rate),
            batch_size=own.batch_size or self.batch_size,
            shuffle=trains if own.shuffle is None else own.shuffle,
            random_start=own.random_start,
            drop_last=own.drop_last if own.drop_last is not None else None if trains else False,
        )
        return self.mode.build(choices, source)

    def limited(self, num_frames: int, frame_rate: float) -> "Batching":
        """Shorten the rows of all stages to at most `num_frames`."""
        if isinstance(self.mode, PadRows):
            raise ConfigError("dataset.mode: pad keeps clips whole, whatever the limit of a row; use crop")
        limit = num_frames / frame_rate

        def shorter(seconds: float | None) -> float | None:
            return None if seconds is None else min(seconds, limit)

        stages = {
            name: own.model_copy(update={"segment_seconds": shorter(own.segment_seconds)})
            for name in get_args(Stage)
            for own in [self.of(name)]
        }
        return self.model_copy(update={**stages, "segment_seconds": min(self.segment_seconds or limit, limit)})


def segment_frames(seconds: float, frame_rate: float) -> int:
    """Return the frames of a segment: the nearest whole number, at least one."""
    return max(1, round(seconds * frame_rate))


def make_stage_loader(
    source: OpenedSource,
    batching: Batching,
    stage: Stage,
    *,
    seed: int = 0,
    rank: int = 0,
    world_size: int = 1,
    pin_memory: bool = False,
) -> Loader:
    """Load the batches of one stage: training is shuffled and cropped at random, the other stages go in order.

    >>> from solfa.data import Batching, Source, make_stage_loader, open_sources
    >>> source = open_sources([Source(path="music.solfa")])
    >>> batch = next(iter(make_stage_loader(source, Batching(segment_seconds=2, batch_size=2), "train")))
    >>> batch.arrays.shape  # two seconds at 75 frames per second
    torch.Size([2, 150, 8])
    """
    own = batching.of(stage)
    num_workers = batching.num_workers if own.num_workers is None else own.num_workers
    return make_loader(
        source,
        batching.rows(stage, source),
        seed=seed,
        rank=rank,
        world_size=world_size,
        # Evaluation may run next to padding; training must not learn from it.
        pad_ranks=stage != "train",
        num_workers=num_workers,
        pin_memory=pin_memory,
        persistent_workers=num_workers > 0,
    )


def _drops(choices: Choices, num_rows: int) -> bool:
    return num_rows >= choices.batch_size if choices.drop_last is None else choices.drop_last


def _needed(num_frames: int | None, kind: str) -> int:
    if num_frames is None:
        raise ConfigError(f"segment_seconds: missing, but mode {kind} needs it; set the length of a row")
    return num_frames


def _unused(name: str, value: object, kind: str) -> None:
    if value is not None:
        raise ConfigError(f"{name}: has no effect in mode {kind}; set it to null or choose another mode")
