"""Draw codes from logits: guidance, top-k, top-p, temperature.

A code is drawn by inverting the distribution function: with cumulative probabilities c_0 <= c_1 <= ... and one uniform
number u, the draw is the first v with c_v > u. Each clip has its own generator, which gives K numbers per step, so a
clip's draws depend on its seed and its logits, and never on the other clips in the batch.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor


def guide(
    conditional: Float[Tensor, "*B V"], unconditional: Float[Tensor, "*B V"], scale: float
) -> Float[Tensor, "*B V"]:
    """Move the logits away from the unconditional ones (classifier-free guidance); a scale of 1 changes nothing.

    >>> import torch
    >>> from solfa.ops import guide
    >>> guide(torch.tensor([2.0, 0.0]), torch.tensor([1.0, 1.0]), scale=3.0)
    tensor([ 4., -2.])
    """
    return torch.lerp(unconditional, conditional, scale)


def filter_logits(logits: Float[Tensor, "*B V"], top_k: int, top_p: float) -> Float[Tensor, "*B V"]:
    """Set the logits of codes that a filter rules out to minus infinity; 0 switches a filter off.

    `top_k` keeps the k largest logits (and any equal to the smallest of them); `top_p` then keeps the smallest set of
    most probable codes whose probability, among those left, is at least p.

    >>> import torch
    >>> from solfa.ops import filter_logits
    >>> filter_logits(torch.tensor([0.0, 3.0, 1.0]), top_k=2, top_p=0.0)
    tensor([-inf, 3., 1.])
    """
    if 0 < top_k < logits.shape[-1]:
        smallest = logits.topk(top_k, dim=-1, sorted=True).values[..., -1:]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    if 0 < top_p < 1:
        ordered, order = logits.sort(dim=-1, descending=True)
        probabilities = ordered.double().softmax(dim=-1)
        before = probabilities.cumsum(dim=-1) - probabilities
        dropped = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, order, before >= top_p)
        logits = logits.masked_fill(dropped, -torch.inf)
    return logits


def draw(
    logits: Float[Tensor, "B K V"],
    temperature: float,
    top_k: int,
    top_p: float,
    generators: Sequence[torch.Generator],
) -> Int64[Tensor, "B K"]:
    """Draw one code per clip and codebook, each clip with its own CPU generator; greedily at temperature 0.

    >>> import torch
    >>> from solfa.ops import draw
    >>> logits = torch.tensor([[[0.0, 3.0, 1.0]]])  # [B, K, V]
    >>> draw(logits, temperature=0.0, top_k=0, top_p=0.0, generators=[])
    tensor([[1]])
    """
    if temperature == 0:
        return logits.argmax(dim=-1)
    num_codebooks = logits.shape[1]
    uniforms = torch.stack([torch.rand(num_codebooks, generator=generator) for generator in generators])
    kept = filter_logits(logits.float() / temperature, top_k, top_p)
    return invert_distribution(kept.softmax(dim=-1), uniforms.to(logits.device))


def invert_distribution(probabilities: Float[Tensor, "*B V"], uniforms: Float[Tensor, "*B"]) -> Int64[Tensor, "*B"]:
    """Find the first code whose cumulative probability exceeds the uniform number in [0, 1).

    A code of probability zero is never found: in float64, the number times the total stays below the total.
    """
    # MPS has no float64; there, the clamp below keeps a number that rounds up to the total within the vocabulary.
    dtype = torch.float32 if probabilities.device.type == "mps" else torch.float64
    cumulative = probabilities.to(dtype).cumsum(dim=-1)
    wanted = uniforms.to(dtype)[..., None] * cumulative[..., -1:]
    found = torch.searchsorted(cumulative, wanted, right=True).squeeze(-1)
    return found.clamp(max=probabilities.shape[-1] - 1)
