"""What the model configs of all autoencoders of stable-audio-tools have in common."""

from math import prod

from solfa.config import Config


class Part(Config):
    """Fields every part may have; `requires_grad` only matters for training."""

    requires_grad: bool = True


class Autoencoder(Config):
    """What every autoencoder says of itself, which must fit what its parts say."""

    latent_dim: int
    downsampling_ratio: int
    io_channels: int
    in_channels: int | None = None
    out_channels: int | None = None
    pretransform: None = None

    def check_sums(self, latent_dim: int, strides: tuple[int, ...], upsampling: tuple[int, ...]) -> None:
        """Check the width of the latents and the samples per frame."""
        check_equal("latent_dim", self.latent_dim, "the decoder's latent_dim", latent_dim)
        check_equal(
            "downsampling_ratio", self.downsampling_ratio, "the product of the encoder's strides", prod(strides)
        )
        check_equal("downsampling_ratio", self.downsampling_ratio, "the decoder's upsampling", prod(upsampling))

    def check_channels(self, encoder: int, decoder: int) -> None:
        """Check the channels of the waveform."""
        check_equal("in_channels", self.in_channels or self.io_channels, "the encoder's in_channels", encoder)
        check_equal("out_channels", self.out_channels or self.io_channels, "the decoder's out_channels", decoder)
        check_equal("in_channels", encoder, "out_channels", decoder)


def check_equal(name: str, value: int, other: str, expected: int) -> None:
    """Refuse a number that another one settles."""
    if value != expected:
        raise ValueError(f"{name}: expected {expected} ({other}), found {value}")
