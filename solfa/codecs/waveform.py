"""Fit waveforms to a network's frames: pad and trim, on the right only."""

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from solfa.errors import ConfigError


def pad_to_multiple(audio: Float[Tensor, "B C N"], hop_length: int) -> Float[Tensor, "B C M"]:
    """Append zeros until the length is a multiple of `hop_length`."""
    return pad(audio, (0, -audio.shape[-1] % hop_length))


def fit_length(audio: Float[Tensor, "B C M"], num_samples: int) -> Float[Tensor, "B C N"]:
    """Trim to `num_samples`, or append the missing zeros.

    Decoders with odd strides (DAC 24 kHz) return a few samples less than were encoded.
    """
    return pad(audio[..., :num_samples], (0, max(0, num_samples - audio.shape[-1])))


def check_audio(audio: Float[Tensor, "B C N"], num_channels: int, name: str) -> None:
    """Refuse a waveform without samples, or with a different number of channels than the codec's."""
    if audio.shape[1] != num_channels or audio.shape[2] < 1:
        raise ConfigError(
            f"codec {name}: expected audio [B, {num_channels}, N >= 1], found {list(audio.shape)}; "
            "convert the channels before encoding"
        )
