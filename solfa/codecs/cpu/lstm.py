"""EnCodec's LSTM over many clips at once, rounded as for one clip alone.

An LSTM reads all of its weights for every frame, whether for one clip or many, so a batch costs little more than a
clip. But oneDNN rounds the two differently: for one clip it first computes the sums over the inputs of all frames and
adds the sum over the previous hidden state at each frame; for several it runs both sums through one accumulator, but
only if inputs and hidden states are equally wide. So the inputs get a few zero features here, which change no sum and
keep the sums apart. (Measured on torch 2.13: equal bits for 1 to 16 clips.)
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

NUM_ZEROS = 8
MIN_CLIPS = 4
"""Fewer clips are faster one after the other."""


def widen(lstm: nn.LSTM) -> list[nn.LSTM]:
    """Split an LSTM into layers that take `NUM_ZEROS` more features, which they ignore."""
    layers = []
    for inner, hidden, *biases in lstm.all_weights:
        layer = nn.LSTM(inner.shape[1] + NUM_ZEROS, hidden.shape[1], device=inner.device, dtype=inner.dtype)
        weights = [F.pad(inner.detach(), (0, NUM_ZEROS)), hidden, *biases]
        layer.load_state_dict(dict(zip(layer.state_dict(), weights, strict=True)))
        layers.append(layer)
    return layers


def residual_lstm(lstm: nn.LSTM) -> Callable[[Float[Tensor, "B C T"]], Float[Tensor, "B C T"]]:
    """Build the sum of `lstm` and its input, for clips `[B, C, T]`."""
    widened = widen(lstm)

    def run(x: Float[Tensor, "B C T"]) -> Float[Tensor, "B C T"]:
        inputs = x.permute(2, 0, 1)
        if len(x) < MIN_CLIPS:
            out = torch.cat([lstm(clip)[0] for clip in torch.split(inputs, 1, dim=1)], dim=1)
        else:
            out = inputs
            for layer in widened:
                out = layer(F.pad(out, (0, NUM_ZEROS)))[0]
        return (out + inputs).permute(1, 2, 0)

    return run
