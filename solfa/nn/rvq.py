"""Residual vector quantization whose codebooks follow the data (SoundStream, arXiv 2107.03312, algorithm 1 and 3.3).

    residual 0 = the vector;   code k = nearest entry of codebook k to residual k;   residual k + 1 = residual k - entry

Codebooks learn from these codes. Those that are stored may be chosen better (solfa/nn/residual_beam.py).

A codebook is initialised by k-means on the first training batch. Then each entry is a running mean of the vectors that
chose it, weighted by a running mean of how many did; an entry chosen too rarely is replaced with a vector of the batch.

Written here rather than taken from vector-quantize-pytorch 1.32, because that one runs k-means in eval mode, too;
decides once and for all at its first call whether processes exchange statistics; compares square roots of distances,
whose ties can choose another code than EnCodec (measured: 0 or 1 of 50,000); and multiplies one-hot matrices: a
training step on 1,200 vectors of 128 numbers with 8 codebooks of 1,024 entries takes 0.24 s on one core there, 0.08 s
here.

All randomness comes from torch's global CPU generator, in amounts that depend on shapes alone. Processes of a
distributed run sum their statistics, so that all have the same codebooks: those of the global batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from solfa.nn.residual_beam import BEAM, Growth, search_codes

_SMALLEST_COUNT = 1e-8


class Quantized(NamedTuple):
    """The result of quantizing a batch of vectors."""

    vectors: Float[Tensor, "B T D"]
    """The sum of the chosen entries, with a straight-through gradient to the input."""
    codes: Int64[Tensor, "B T K"]
    """The codes of all codebooks, including those that dropout left out of the sum."""
    commitment: Float[Tensor, ""]
    """The mean squared distance between residuals and their chosen entries, with a gradient to the input only."""
    replaced: Float[Tensor, ""]
    """The share of entries replaced in this step."""


class ResidualVectorQuantizer(nn.Module):
    """K codebooks of V entries. `forward` learns in training mode; `encode` and `decode` never do.

    >>> import torch
    >>> from solfa.nn import ResidualVectorQuantizer
    >>> quantizer = ResidualVectorQuantizer(num_codebooks=2, codebook_size=8, dim=4)
    >>> _ = quantizer(torch.randn(1, 100, 4))  # in training mode, the first vectors become the entries
    >>> codes = quantizer.eval().encode(torch.randn(1, 10, 4))
    >>> codes.shape, quantizer.decode(codes).shape
    (torch.Size([1, 10, 2]), torch.Size([1, 10, 4]))
    """

    codebooks: Float[Tensor, "K V D"]
    counts: Float[Tensor, "K V"]
    """How many vectors of a batch choose each entry, as a running mean."""
    initialized: Bool[Tensor, ""]

    def __init__(
        self,
        num_codebooks: int,
        codebook_size: int,
        dim: int,
        *,
        dropout: float = 0.0,
        decay: float = 0.99,
        expire_below: float = 0.1,
        kmeans_iterations: int = 10,
    ) -> None:
        """Interpret `expire_below` as a share of the mean count, so that it means the same for every batch size.

        In each training batch, a share `dropout` of the clips is rebuilt from a random number of first codebooks.
        Without `kmeans_iterations`, the codebooks start as random vectors of length about 1.
        """
        super().__init__()
        self.dropout, self.decay, self.expire_below = dropout, decay, expire_below
        self.kmeans_iterations = kmeans_iterations
        self.learns = True
        """Without it, training draws how many codebooks are used, leaves their entries as they are, and chooses codes
        as they are chosen to be stored."""
        self.register_buffer("codebooks", torch.randn(num_codebooks, codebook_size, dim) / dim**0.5)
        self.register_buffer("counts", torch.ones(num_codebooks, codebook_size))
        self.register_buffer("initialized", torch.tensor(kmeans_iterations == 0))

    def forward(self, vectors: Float[Tensor, "B T D"]) -> Quantized:
        learning = self.training and self.learns
        starting = learning and not bool(self.initialized)
        used = self._draw_used(len(vectors)).to(vectors)
        residual, total = vectors, torch.zeros_like(vectors)
        codes, errors, replaced = [], [], []
        searched = None if self.learns else self.encode(vectors.detach(), beam=BEAM)
        for index in range(len(self.codebooks)):
            flat = residual.detach().flatten(0, 1)
            if starting:
                self._start(index, flat)
            if searched is None:
                chosen = nearest_entries(flat, self.codebooks[index]).view(residual.shape[:-1])
            else:
                chosen = searched[..., index]
            entries = F.embedding(chosen, self.codebooks[index])
            if learning:
                replaced.append(self._learn(index, flat, chosen.flatten()))
            errors.append((residual - entries).square().mean(dim=(1, 2)))
            residual = residual - entries
            total = total + used[:, index, None, None] * entries
            codes.append(chosen)
        if starting:
            self.initialized.fill_(True)
        commitment = (torch.stack(errors, dim=1) * used).sum() / used.sum()
        # Adding a zero with a gradient keeps the value exactly equal to what `decode` gives.
        through = total + (vectors - vectors.detach())
        share = torch.stack(replaced).mean() if replaced else total.new_zeros(())
        return Quantized(through, torch.stack(codes, dim=-1), commitment, share)

    def encode(
        self,
        vectors: Float[Tensor, "B T D"],
        num_codebooks: int | None = None,
        *,
        beam: int = 1,
        growths: Sequence[Growth] | None = None,
    ) -> Int64[Tensor, "B T K"]:
        """Choose the entries of the first codebooks: the nearest one after the other, or the best that a beam finds.

        With a beam, the codes of fewer codebooks are not the first ones of more; `growths` may compute a part of it.
        """
        if beam > 1:
            found = search_codes(vectors.flatten(0, 1), self.codebooks[:num_codebooks], beam, growths)
            return found.view(*vectors.shape[:-1], -1)
        residual, codes = vectors, []
        for codebook in self.codebooks[:num_codebooks]:
            codes.append(nearest_entries(residual.flatten(0, 1), codebook).view(residual.shape[:-1]))
            residual = residual - F.embedding(codes[-1], codebook)
        return torch.stack(codes, dim=-1)

    def decode(self, codes: Int64[Tensor, "B T K"]) -> Float[Tensor, "B T D"]:
        """Sum the entries of the first codebooks, as many as there are codes."""
        total = self.codebooks.new_zeros(())
        for index, chosen in enumerate(codes.unbind(dim=-1)):
            total = total + F.embedding(chosen, self.codebooks[index])
        return total

    def _draw_used(self, batch: int) -> Bool[Tensor, "B K"]:
        """Choose which codebooks each clip is rebuilt from: all, or a random number of first ones."""
        num_codebooks = len(self.codebooks)
        used = torch.full((batch,), num_codebooks)
        if self.training and self.dropout:
            drawn = torch.randint(1, num_codebooks + 1, (batch,))
            used = torch.where(torch.rand(batch) < self.dropout, drawn, used)
        return torch.arange(num_codebooks) < used[:, None]

    @torch.no_grad()
    def _start(self, index: int, vectors: Float[Tensor, "N D"]) -> None:
        means, sizes = kmeans(vectors, self.codebooks.shape[1], self.kmeans_iterations)
        self.codebooks[index], self.counts[index] = means, sizes

    @torch.no_grad()
    def _learn(self, index: int, vectors: Float[Tensor, "N D"], codes: Int64[Tensor, "N"]) -> Float[Tensor, ""]:
        """Move the entries towards the vectors that chose them, replace rare ones, and return the share replaced."""
        codebook, counts = self.codebooks[index], self.counts[index]
        rate, size = 1 - self.decay, len(codebook)
        sums, sizes, candidates = _over_processes(*assigned(vectors, codes, size), draw_vectors(vectors, size))
        counts.lerp_(sizes, rate)
        # The running mean of sums over that of counts, without keeping the sums: they are counts * codebook.
        codebook += rate * (sums - sizes[:, None] * codebook) / counts[:, None].clamp_min(_SMALLEST_COUNT)
        mean = counts.mean()
        rare = counts < self.expire_below * mean
        codebook.copy_(torch.where(rare[:, None], candidates, codebook))
        counts.copy_(torch.where(rare, mean, counts))
        return rare.float().mean()


def nearest_entries(vectors: Float[Tensor, "N D"], codebook: Float[Tensor, "V D"]) -> Int64[Tensor, "N"]:
    """Find the nearest entry of each vector, with exactly EnCodec's order of operations."""
    entries = codebook.detach().t()
    lengths = vectors.detach().pow(2).sum(1, keepdim=True)
    distance = -(lengths - 2 * vectors.detach() @ entries + entries.pow(2).sum(0, keepdim=True))
    return distance.max(dim=-1).indices


def assigned(
    vectors: Float[Tensor, "N D"], codes: Int64[Tensor, "N"], size: int
) -> tuple[Float[Tensor, "V D"], Float[Tensor, "V"]]:
    """Sum and count the vectors that chose each of `size` entries."""
    sums = vectors.new_zeros(size, vectors.shape[1]).index_add_(0, codes, vectors)
    sizes = vectors.new_zeros(size).index_add_(0, codes, torch.ones_like(vectors[:, 0]))
    return sums, sizes


def draw_vectors(vectors: Float[Tensor, "N D"], num: int) -> Float[Tensor, "V D"]:
    """Draw `num` of this process's vectors, without repeats if there are enough."""
    total = len(vectors)
    drawn = torch.randperm(total)[:num] if total >= num else torch.randint(total, (num,))
    return vectors[drawn.to(vectors.device)]


def kmeans(
    vectors: Float[Tensor, "N D"], num_clusters: int, num_iterations: int
) -> tuple[Float[Tensor, "V D"], Float[Tensor, "V"]]:
    """Cluster the vectors of all processes (Lloyd's algorithm): return means and cluster sizes."""
    empty = vectors.new_zeros(num_clusters, vectors.shape[1])
    _, sizes, means = _over_processes(empty, empty[:, 0].clone(), draw_vectors(vectors, num_clusters))
    for _ in range(num_iterations):
        sums, sizes, _ = _over_processes(*assigned(vectors, nearest_entries(vectors, means), num_clusters), empty)
        means = torch.where(sizes[:, None] > 0, sums / sizes[:, None].clamp_min(1), means)
    return means, sizes


def _over_processes(
    sums: Float[Tensor, "V D"], sizes: Float[Tensor, "V"], candidates: Float[Tensor, "V D"]
) -> tuple[Float[Tensor, "V D"], Float[Tensor, "V"], Float[Tensor, "V D"]]:
    """Sum the sums and sizes over processes; candidate v is taken from process v modulo their number."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return sums, sizes, candidates
    places = torch.arange(len(candidates), device=candidates.device)
    mine = places % dist.get_world_size() == dist.get_rank()
    packed = torch.cat([sums, sizes[:, None], candidates * mine[:, None]], dim=1)
    dist.all_reduce(packed)
    width = sums.shape[1]
    return packed[:, :width], packed[:, width], packed[:, width + 1 :]
