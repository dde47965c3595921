"""The encoding of silence, which readers of fixed-length layouts use to fill up short items."""

from typing import Any

import numpy as np
import torch

from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec
from solfa.store.dataset import Dataset


def silence_array(codec: Codec, num_samples: int) -> np.ndarray[Any, Any]:
    """Encode `num_samples` of silence to [T, W]."""
    return np.asarray(codec.encode(torch.zeros(1, codec.num_channels, num_samples)).array[0].cpu().numpy())


def encoded_silence(dataset: Dataset, min_frames: int = 1) -> np.ndarray[Any, Any]:
    """Encode silence as long as the longest clip of a dataset, with the codec that made it."""
    codec = load_codec(dataset.info.codec)
    longest = int(np.max(dataset.num_frames, initial=max(1, min_frames)))
    return silence_array(codec, longest * codec.hop_length).astype(dataset.info.array.numpy_dtype)
