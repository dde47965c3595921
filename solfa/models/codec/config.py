"""The config of a neural codec; everything that can be derived is a property."""

import math
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from solfa.config import Config
from solfa.models.codec.bottlenecks import BottleneckConfig, Rvq
from solfa.nn.seanet import SeanetConfig
from solfa.nn.spectral_net import SpectralConfig

NetworkConfig = Annotated[SeanetConfig | SpectralConfig, Field(discriminator="kind")]
"""The encoder and the decoder: convolutions over samples, or a network on spectra."""


class CodecModelConfig(Config):
    """An encoder, a bottleneck and a decoder, for audio at one sample rate."""

    sample_rate: PositiveInt
    num_channels: PositiveInt = 1
    network: NetworkConfig = SeanetConfig()
    bottleneck: BottleneckConfig = Rvq()

    @property
    def hop_length(self) -> int:
        """Samples per frame."""
        return self.network.hop_length

    @property
    def frame_rate(self) -> float:
        """Frames per second."""
        return self.sample_rate / self.hop_length

    @property
    def kind(self) -> Literal["codes", "latents"]:
        return "codes" if self.bottleneck.latent_channels is None else "latents"

    @property
    def num_codebooks(self) -> int | None:
        return self.bottleneck.num_codebooks

    @property
    def codebook_size(self) -> int | None:
        return self.bottleneck.codebook_size

    @property
    def latent_channels(self) -> int | None:
        return self.bottleneck.latent_channels

    @property
    def bits_per_second(self) -> float | None:
        """The bit rate with all codebooks; None for continuous latents."""
        if self.num_codebooks is None or self.codebook_size is None:
            return None
        return self.num_codebooks * math.log2(self.codebook_size) * self.frame_rate
