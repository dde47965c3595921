"""`mulaw`: waveforms as mu-law classes, which are finest near silence."""

from pydantic import Field

from solfa.config import Config
from solfa.ops.class_grid import Bits, MulawGrid


class MulawOptions(Config):
    """The options of `mulaw`, from which a `WaveformCodec` is built."""

    bits: Bits = 8
    sample_rate: int = Field(default=16_000, ge=1)
    num_channels: int = Field(default=1, ge=1, le=8)

    @property
    def grid(self) -> MulawGrid:
        return MulawGrid(bits=self.bits)
