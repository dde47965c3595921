"""SEANet, the convolutional encoder and decoder of EnCodec (arXiv 2210.13438, section 3.1).

    encoder   audio -> conv -> [residual blocks, activation, conv that halves the rate ..] -> LSTM -> conv -> latents
    decoder   latents -> conv -> LSTM -> [activation, conv that raises the rate, residual blocks ..] -> conv -> audio

Channels double with each stride and halve on the way back. Modules and their order match transformers'
`EncodecModel`, so its weights load by name. A causal network with reflected padding looks ahead in its first few frames
(the padding mirrors what follows); with zero padding it never does.
"""

import math
from collections.abc import Iterator
from typing import Literal

from jaxtyping import Float
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from solfa.config import Config
from solfa.nn.activations import Activation, Elu
from solfa.nn.padded_conv import PaddedConv1d, TrimmedConvTranspose1d


class SeanetConfig(Config):
    """The size and parts of an encoder and the decoder that mirrors it."""

    kind: Literal["seanet"] = "seanet"
    num_filters: PositiveInt = 32
    """Channels at the audio rate."""
    dim: PositiveInt = 128
    """The width of the latents."""
    strides: tuple[PositiveInt, ...] = Field(default=(8, 5, 4, 2), min_length=1)
    """In the decoder's order; the encoder applies the last one first."""
    kernel_size: PositiveInt = 7
    last_kernel_size: PositiveInt = 7
    residual_kernel_size: PositiveInt = 3
    num_residual_layers: int = Field(default=1, ge=0)
    """Residual blocks at each rate; block j is dilated by dilation_base ** j."""
    dilation_base: PositiveInt = 2
    compress: PositiveInt = 2
    """By what factor the inside of a residual block is narrower."""
    conv_shortcut: bool = False
    """Add a convolution of a block's input instead of the input itself."""
    causal: bool = True
    pad_mode: Literal["reflect", "zero"] = "reflect"
    trim_right_ratio: float = Field(default=1.0, ge=0, le=1)
    """The share of a causal transposed convolution's surplus samples that is cut off on the right."""
    lstm_layers: int = Field(default=2, ge=0)
    activation: Activation = Elu()
    weight_norm: bool = True

    @model_validator(mode="after")
    def _check(self) -> "SeanetConfig":
        if self.compress > self.num_filters:
            raise ValueError(f"expected compress to be at most num_filters ({self.num_filters}), found {self.compress}")
        if not self.causal and self.trim_right_ratio != 1:
            raise ValueError(f"trim_right_ratio needs causal, found {self.trim_right_ratio} without it")
        return self

    @property
    def hop_length(self) -> int:
        """Samples per frame."""
        return math.prod(self.strides)

    @property
    def widest(self) -> int:
        """Channels at the frame rate."""
        return self.num_filters << len(self.strides)

    def build_encoder(self, num_channels: int) -> "SeanetEncoder":
        return SeanetEncoder(self, num_channels)

    def build_decoder(self, num_channels: int) -> "SeanetDecoder":
        return SeanetDecoder(self, num_channels)

    def conv(self, inside: int, outside: int, kernel_size: int, stride: int = 1, dilation: int = 1) -> PaddedConv1d:
        """Build a convolution with this network's padding and normalisation."""
        mode: Literal["reflect", "constant"] = "reflect" if self.pad_mode == "reflect" else "constant"
        options = {"causal": self.causal, "weight_norm": self.weight_norm}
        return PaddedConv1d(inside, outside, kernel_size, stride, dilation, pad_mode=mode, **options)

    def upsampling(self, inside: int, outside: int, stride: int) -> TrimmedConvTranspose1d:
        """Build a transposed convolution with this network's trimming and normalisation."""
        options = {"causal": self.causal, "weight_norm": self.weight_norm}
        trim = self.trim_right_ratio
        return TrimmedConvTranspose1d(inside, outside, 2 * stride, stride, trim_right_ratio=trim, **options)


class ResidualBlock(nn.Module):
    """Two activations and convolutions, the second pointwise, added to their input."""

    def __init__(self, config: SeanetConfig, num_channels: int, dilation: int) -> None:
        super().__init__()
        inside = num_channels // config.compress
        self.block = nn.ModuleList(
            [
                config.activation.build(num_channels),
                config.conv(num_channels, inside, config.residual_kernel_size, dilation=dilation),
                config.activation.build(inside),
                config.conv(inside, num_channels, 1),
            ]
        )
        self.shortcut = config.conv(num_channels, num_channels, 1) if config.conv_shortcut else nn.Identity()

    def forward(self, x: Float[Tensor, "B C n"]) -> Float[Tensor, "B C n"]:
        y = x
        for layer in self.block:
            y = layer(y)
        added: Tensor = self.shortcut(x) + y
        return added


class ResidualLstm(nn.Module):
    """An LSTM over frames, added to its input."""

    def __init__(self, dim: int, num_layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(dim, dim, num_layers)

    def forward(self, x: Float[Tensor, "B C T"]) -> Float[Tensor, "B C T"]:
        frames = x.permute(2, 0, 1)
        y: Tensor = self.lstm(frames)[0] + frames
        return y.permute(1, 2, 0)


class SeanetEncoder(nn.Module):
    """Audio to T = ceil(N / hop_length) latents.

    >>> import torch
    >>> from solfa.nn import SeanetConfig, SeanetEncoder
    >>> encoder = SeanetEncoder(SeanetConfig(num_filters=4, dim=8, strides=(4, 2), lstm_layers=0), num_channels=1)
    >>> encoder(torch.zeros(1, 1, 804)).shape
    torch.Size([1, 8, 101])
    """

    def __init__(self, config: SeanetConfig, num_channels: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_encoder_layers(config, num_channels))

    def forward(self, audio: Float[Tensor, "B C N"]) -> Float[Tensor, "B D T"]:
        x = audio
        for layer in self.layers:
            x = layer(x)
        return x


class SeanetDecoder(nn.Module):
    """T latents to T * hop_length samples.

    >>> import torch
    >>> from solfa.nn import SeanetConfig, SeanetDecoder
    >>> decoder = SeanetDecoder(SeanetConfig(num_filters=4, dim=8, strides=(4, 2), lstm_layers=0), num_channels=1)
    >>> decoder(torch.zeros(1, 8, 101)).shape
    torch.Size([1, 1, 808])
    """

    def __init__(self, config: SeanetConfig, num_channels: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_decoder_layers(config, num_channels))

    def forward(self, latents: Float[Tensor, "B D T"]) -> Float[Tensor, "B C N"]:
        x = latents
        for layer in self.layers:
            x = layer(x)
        return x


def _encoder_layers(config: SeanetConfig, num_channels: int) -> Iterator[nn.Module]:
    width = config.num_filters
    yield config.conv(num_channels, width, config.kernel_size)
    for stride in reversed(config.strides):
        yield from _residual_blocks(config, width)
        yield config.activation.build(width)
        yield config.conv(width, 2 * width, 2 * stride, stride)
        width *= 2
    yield _lstm(config)
    yield config.activation.build(width)
    yield config.conv(width, config.dim, config.last_kernel_size)


def _decoder_layers(config: SeanetConfig, num_channels: int) -> Iterator[nn.Module]:
    width = config.widest
    yield config.conv(config.dim, width, config.kernel_size)
    yield _lstm(config)
    for stride in config.strides:
        yield config.activation.build(width)
        yield config.upsampling(width, width // 2, stride)
        width //= 2
        yield from _residual_blocks(config, width)
    yield config.activation.build(width)
    yield config.conv(width, num_channels, config.last_kernel_size)


def _residual_blocks(config: SeanetConfig, width: int) -> Iterator[nn.Module]:
    for layer in range(config.num_residual_layers):
        yield ResidualBlock(config, width, config.dilation_base**layer)


def _lstm(config: SeanetConfig) -> nn.Module:
    return ResidualLstm(config.widest, config.lstm_layers) if config.lstm_layers else nn.Identity()
