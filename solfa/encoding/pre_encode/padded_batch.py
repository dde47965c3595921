"""Encode batches of items that are all padded to one length."""

from typing import Any, NamedTuple

import numpy as np
import torch

from solfa.codecs.protocol import Codec, Encoded
from solfa.errors import ConfigError, SolfaError

Array = np.ndarray[Any, Any]


class EncodedItem(NamedTuple):
    """One item as it is stored."""

    array: Array
    """[W, T], as older tools expect it."""
    scales: list[float] | None
    """Loudness of each chunk, for codecs that normalise."""

    @property
    def num_frames(self) -> int:
        """Count the frames, padding included."""
        return int(self.array.shape[1])


def pad(audio: Array, sample_size: int) -> Array:
    """Append zeros to `[C, N]` audio; an item is never longer than `sample_size`."""
    return np.pad(audio, ((0, 0), (0, sample_size - audio.shape[1])))


class BatchEncoder:
    """A codec that always gets audio of the same length."""

    def __init__(self, codec: Codec, device: str, sample_size: int, half: bool) -> None:
        self._codec, self._device, self._sample_size, self._half = codec, device, sample_size, half

    def encode(self, audio: list[Array]) -> list[EncodedItem]:
        """Encode clips `[C, N]` of up to `sample_size` samples as one batch."""
        encoded = self._try_twice(torch.from_numpy(np.stack([pad(clip, self._sample_size) for clip in audio])))
        scales = encoded.scales
        return [
            EncodedItem(self._stored(row), None if scales is None else scales[index].float().cpu().tolist())
            for index, row in enumerate(encoded.array.cpu().numpy())
        ]

    def encode_silence(self) -> Array:
        """Encode `sample_size` zeros as `[1, W, T]`; done first, because it shows whether the codec runs at all."""
        try:
            (silence,) = self.encode([np.zeros((self._codec.num_channels, 1), np.float32)])
        except (RuntimeError, NotImplementedError) as error:
            if not self._half or isinstance(error, torch.OutOfMemoryError):
                raise
            reason = str(error).partition("\n")[0]
            raise ConfigError(
                f"`model_half`: {self._codec.name} does not run in fp16 on {self._device} ({reason}); "
                "leave it out or use a GPU"
            ) from error
        return silence.array[None]

    def _stored(self, row: Array) -> Array:
        """Turn `[T, W]` into the `[W, T]` and dtypes of older tools: int64 codes, fp16 latents from fp16 models."""
        if row.dtype.kind in "ui":
            return np.ascontiguousarray(row.T, np.int64)
        return np.ascontiguousarray(row.T, np.float16 if self._half else np.float32)

    def _try_twice(self, audio: torch.Tensor) -> Encoded:
        """Encode; a device that runs out of memory gets a second try with an empty cache."""
        try:
            return self._codec.encode(audio.to(self._device))
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
        try:
            return self._codec.encode(audio.to(self._device))
        except torch.OutOfMemoryError:
            seconds = audio.shape[0] * audio.shape[2] / self._codec.sample_rate
            raise SolfaError(
                f"{self._device}: not enough memory for {audio.shape[0]} items at once ({seconds:.0f} s of audio); "
                "free some and run the same command to continue, or start a new `output_path` with a smaller "
                "`batch_size`"
            ) from None
