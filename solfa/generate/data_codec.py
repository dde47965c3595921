"""The codec that a model's data was encoded with, loaded on first use."""

from collections.abc import Mapping
from typing import Any, final

import torch

from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec, Encoded
from solfa.errors import ConfigError
from solfa.store.schema import ArraySpec


def codes_array(data_facts: Mapping[str, Any]) -> ArraySpec:
    """Read the dataset's array specification; anything but codes is an error."""
    array = ArraySpec.model_validate(data_facts["array"])
    if array.kind != "codes" or array.codebook_size is None:
        raise ConfigError(
            f"dset: a language model needs codes, found {array.kind}; train a flow model on them (solver=flow/base), "
            "or encode the audio with a codec of codes"
        )
    return array


def latents_array(data_facts: Mapping[str, Any]) -> ArraySpec:
    """Read the dataset's array specification; anything but latents is an error."""
    array = ArraySpec.model_validate(data_facts["array"])
    if array.kind != "latents":
        raise ConfigError(
            f"dset: a flow model needs latents, found {array.kind}; encode the audio with a codec of latents, such as "
            "stable_audio_open"
        )
    return array


@final
class DataCodec:
    """A codec by its text, for arrays of one shape."""

    def __init__(self, text: str, array: ArraySpec) -> None:
        self.text, self.array = text, array
        self._loaded: tuple[torch.device, Codec] | None = None

    def on(self, device: torch.device) -> Codec:
        """Return the codec on a device; one that does not fit the arrays is an error."""
        if self._loaded is None or self._loaded[0] != device:
            self._loaded = device, self._load(device)
        return self._loaded[1]

    def _load(self, device: torch.device) -> Codec:
        codec = load_codec(self.text, device=str(device))
        if self.array.kind == "latents":
            return self._with_latents(codec)
        if (codec.num_codebooks, codec.codebook_size) != (self.array.width, self.array.codebook_size):
            raise ConfigError(
                f"codec {self.text}: expected {self.array.width} codebooks of {self.array.codebook_size}, found "
                f"{codec.num_codebooks} of {codec.codebook_size}; set codec to the one the dataset was encoded with"
            )
        return codec

    def _with_latents(self, codec: Codec) -> Codec:
        if codec.latent_channels != self.array.width:
            raise ConfigError(
                f"codec {self.text}: expected latents of {self.array.width} channels, found "
                f"{codec.latent_channels or 'codes'}; set codec to the one the dataset was encoded with"
            )
        return codec


def check_decoding(codec: Codec, array: ArraySpec) -> None:
    """Decode one frame, to find out now, not after hours of training, if the codec cannot decode."""
    dtype = torch.int64 if array.kind == "codes" else torch.float32
    codec.decode(Encoded(torch.zeros(1, 1, array.width, dtype=dtype), codec.hop_length))
