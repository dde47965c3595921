"""How good a codec is: distances between decoded sounds and the originals, and codebook usage."""

import math

import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from solfa.ops.audio_losses import check_same_shape, mel_power

MEL_WINDOW = 2048
NUM_BANDS = 96


def si_sdr(
    estimate: Float[Tensor, "*B N"], target: Float[Tensor, "*B N"], limit_db: float = 100.0
) -> Float[Tensor, "*B"]:
    """Compare the part of each estimate along its target with the rest, in decibels (Le Roux et al. 2019).

    It does not depend on the scale of either. It is limited to plus and minus `limit_db`, so that one perfect clip does
    not make a mean infinite; a silent estimate gets the lower limit. For a silent target it is undefined, hence NaN:
    leave such clips out of a mean (`torch.nanmean`).

    >>> import torch
    >>> from solfa.ops import si_sdr
    >>> target = torch.sin(torch.arange(100.0))[None]
    >>> si_sdr(2 * target, target, limit_db=100.0)
    tensor([100.])
    """
    check_same_shape(estimate, target)
    estimate, target = _precise(estimate), _precise(target)
    energy = target.square().sum(dim=-1)
    scale = (estimate * target).sum(dim=-1) / energy
    along = scale[..., None] * target
    signal, noise = along.square().sum(dim=-1), (estimate - along).square().sum(dim=-1)
    decibels = 10.0 * (signal.log10() - noise.log10())
    decibels = torch.where(signal == 0.0, -math.inf, decibels).clamp(-limit_db, limit_db)
    return torch.where(energy == 0.0, math.nan, decibels).float()


def batch_mel_distance_db(
    estimate: Float[Tensor, "B C N"], target: Float[Tensor, "B C N"], sample_rate: int, floor_db: float = -80.0
) -> Float[Tensor, " B"]:
    """Average the difference between two mel spectrograms, in decibels, over each clip's time, bands and channels.

    It gives a number per clip of a batch, on its device; `solfa.evaluate.mel_distance_db` measures one clip without
    torch, and finds the same. The floor is relative to the power of a full-scale sine.
    """
    check_same_shape(estimate, target)
    # A periodic Hann window of unit energy gives a full-scale sine the power window / 6.
    floor = 10.0 ** (floor_db / 10.0) * MEL_WINDOW / 6.0
    one, other = (mel_power(audio, sample_rate, MEL_WINDOW, NUM_BANDS).clamp(min=floor) for audio in (estimate, target))
    return 10.0 * (one.log10() - other.log10()).abs().mean(dim=(1, 2, 3))


def count_codes(codes: Int[Tensor, "B T K"], codebook_size: int) -> Int64[Tensor, "K V"]:
    """Count how often each entry of each codebook occurs, ignoring negative codes (of a dropped codebook).

    Add up the counts of all batches and processes before drawing conclusions about a whole stage.

    >>> import torch
    >>> from solfa.ops import count_codes
    >>> count_codes(torch.tensor([[[0, 3], [0, 2], [1, -1]]]), codebook_size=4)
    tensor([[2, 1, 0, 0],
            [0, 0, 1, 1]])
    """
    highest = int(codes.max()) if codes.numel() else -1
    if highest >= codebook_size:
        raise ValueError(f"codes: expected codes below the codebook size {codebook_size}, found {highest}")
    num_codebooks = codes.shape[-1]
    places = codes.long() + codebook_size * torch.arange(num_codebooks, device=codes.device)
    counts = torch.bincount(places[codes >= 0], minlength=num_codebooks * codebook_size)
    return counts.reshape(num_codebooks, codebook_size)


def codebook_usage(counts: Int64[Tensor, "K V"]) -> Float[Tensor, " K"]:
    """Return the share of each codebook's entries that occur at all.

    >>> import torch
    >>> from solfa.ops import codebook_usage
    >>> codebook_usage(torch.tensor([[5, 5, 5, 5], [19, 1, 0, 0]]))
    tensor([1.0000, 0.5000])
    """
    return (counts > 0).float().mean(dim=-1)


def codebook_perplexity(counts: Int64[Tensor, "K V"]) -> Float[Tensor, " K"]:
    """Return the number of equally frequent entries with the same entropy; 1 if nothing was counted.

    >>> import torch
    >>> from solfa.ops import codebook_perplexity
    >>> codebook_perplexity(torch.tensor([[5, 5, 5, 5], [10, 10, 0, 0], [20, 0, 0, 0]])).round(decimals=3)
    tensor([4., 2., 1.])
    """
    frequencies = _precise(counts)
    frequencies = frequencies / frequencies.sum(dim=-1, keepdim=True).clamp(min=1.0)
    entropies: Tensor = torch.special.entr(frequencies).sum(dim=-1)
    return entropies.exp().float()


def _precise(values: Tensor) -> Tensor:
    return values.to(torch.float32 if values.device.type == "mps" else torch.float64)
