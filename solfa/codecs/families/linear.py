"""`linear`: waveforms as evenly spaced classes."""

from pydantic import Field

from solfa.config import Config
from solfa.ops.class_grid import Bits, LinearGrid


class LinearOptions(Config):
    """The options of `linear`, from which a `WaveformCodec` is built."""

    bits: Bits = 16
    sample_rate: int = Field(default=16_000, ge=1)
    num_channels: int = Field(default=1, ge=1, le=8)

    @property
    def grid(self) -> LinearGrid:
        return LinearGrid(bits=self.bits)
