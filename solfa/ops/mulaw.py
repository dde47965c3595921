"""Mu-law companding (ITU-T G.711's curve, as WaveNet and SaShiMi use it) at any number of classes.

With Q classes and mu = Q - 1, the waveform x in [-1, 1] is companded by

    y = sign(x) log(1 + mu |x|) / log(1 + mu)

and y is rounded to the nearest of Q equally spaced values -1, -1 + 2/mu, ..., 1 (class 0 .. Q - 1). Q is even, so the
grid is symmetric and has no zero: the two values closest to silence are +-((1 + mu)^(1/mu) - 1) / mu, i.e. 8.6e-5 at
8 bits and 2.6e-9 at 16 bits. Silence (and any tie) goes to the upper one, class Q / 2. A grid with an exact zero would
have to give up its symmetry, and full scale on one side, and would differ from what other tools write.
"""

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor


def mulaw_encode(audio: Float[Tensor, "*shape"], num_classes: int) -> Int[Tensor, "*shape"]:
    """Map a waveform to classes 0 .. num_classes - 1; values outside [-1, 1] are clipped.

    >>> import torch
    >>> from solfa.ops import mulaw_decode, mulaw_encode
    >>> classes = mulaw_encode(torch.tensor([-1.0, 0.0, 1.0]), num_classes=256)
    >>> classes
    tensor([  0, 128, 255])
    >>> torch.equal(mulaw_encode(mulaw_decode(classes, 256), 256), classes)
    True
    """
    return torch.floor((mulaw_bend(audio, num_classes) + 1) / 2 * (num_classes - 1) + 0.5).long()


def mulaw_decode(classes: Int[Tensor, "*shape"], num_classes: int) -> Float[Tensor, "*shape"]:
    """Map classes to float32 values that `mulaw_encode` maps back to the same classes.

    >>> import torch
    >>> from solfa.ops import mulaw_decode, mulaw_encode
    >>> amplitudes = mulaw_decode(torch.tensor([0, 64, 255]), num_classes=256)
    >>> amplitudes.round(decimals=3), mulaw_encode(amplitudes, num_classes=256)
    (tensor([-1.0000, -0.0580,  1.0000]), tensor([  0,  64, 255]))
    """
    return mulaw_unbend(2 * classes.double() / (num_classes - 1) - 1, num_classes).float()


def mulaw_bend(audio: Float[Tensor, "*shape"], num_classes: int) -> Float64[Tensor, "*shape"]:
    """Map a waveform, clipped to [-1, 1], to the y that classes divide equally."""
    mu = num_classes - 1
    # float64: at 16 bits a float32 logarithm is off by whole classes near full scale.
    clipped = audio.double().clamp(-1.0, 1.0)
    return clipped.sign() * torch.log1p(mu * clipped.abs()) / _log_one_plus(mu)


def mulaw_unbend(bent: Float64[Tensor, "*shape"], num_classes: int) -> Float64[Tensor, "*shape"]:
    """Map y in [-1, 1] back to the waveform."""
    mu = num_classes - 1
    return bent.sign() * torch.expm1(bent.abs() * _log_one_plus(mu)) / mu


def _log_one_plus(mu: int) -> float:
    return float(torch.log1p(torch.tensor(mu, dtype=torch.float64)))
