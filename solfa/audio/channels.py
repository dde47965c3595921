"""The channel rule: keep channels if the count matches, repeat a single one, otherwise average all and repeat."""

import numpy as np
import numpy.typing as npt

Audio = npt.NDArray[np.float32]
"""A waveform: float32 `[C, N]`, channels and samples, full scale at one."""


def to_channels(audio: Audio, num_channels: int) -> Audio:
    """Give `[C, N]` audio `num_channels` channels.

    Audio whose count already matches stays as it is; one channel is repeated, several are averaged first.

    >>> import numpy as np
    >>> from solfa.audio import to_channels
    >>> to_channels(np.array([[1.0, 0.0], [0.0, 0.0]], np.float32), 1)
    array([[0.5, 0. ]], dtype=float32)
    """
    if len(audio) == num_channels:
        return audio
    return np.repeat(audio if len(audio) == 1 else _mean(audio)[None], num_channels, axis=0)


def _mean(audio: Audio) -> Audio:
    # Channel by channel: decoded audio is interleaved, and numpy's mean over its inner axis takes ten times as long.
    total: Audio = audio[0].copy()
    for channel in audio[1:]:
        total += channel
    total /= len(audio)
    return total


def distinct_channels(audio: Audio, num_channels: int) -> Audio:
    """Reduce to the channels that will end up different, so that no work is done twice."""
    return audio if len(audio) == num_channels else to_channels(audio, 1)
