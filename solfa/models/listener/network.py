"""A listener: hears the codes of a clip, and says how probable each value of a condition is.

    codes [N, K, T] ──► a vector per code, summed over codebooks ──► convolutions with strides
                    ──► the mean of the whole clip, and that of its end ──► a logit per value

It learns from clips whose value is known, so it can tell which of a model's draws is what was asked for. Pitch is
spread over all codebooks of a frame and over several frames, hence the convolutions; a piece of music ends at home,
hence the end. Codes may be left unheard (`UNHEARD`): in training, so that it does not rely on any one of them.
"""

from functools import reduce
from itertools import pairwise
from operator import add

import torch
from jaxtyping import Float, Int64
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from solfa.config import Config

UNHEARD = -1
"""Stands for a code that is not heard."""


class ListenerConfig(Config):
    """What a listener hears, what it tells, and its size."""

    condition: str
    """The name of the condition whose value it tells."""
    num_values: int = Field(ge=2)
    """How many values that condition can have."""
    num_codebooks: PositiveInt
    codebook_size: PositiveInt
    codec_fingerprint: str
    """The codec whose codes it has learnt to hear."""
    embedding_dim: PositiveInt = 32
    widths: tuple[PositiveInt, ...] = (64, 96, 96)
    """Of the convolutions, each of which halves the number of steps."""
    kernel_size: int = Field(default=5, ge=1)
    hidden_dim: PositiveInt = 64
    end_frames: PositiveInt = 112
    """How much of a clip is its end."""


class CodesListener(nn.Module):
    """Tells the value of a condition from codes.

    >>> import torch
    >>> from solfa.models import CodesListener, ListenerConfig
    >>> shape = {"num_codebooks": 4, "codebook_size": 1024, "codec_fingerprint": "d2fa4765"}
    >>> listener = CodesListener(ListenerConfig(condition="key", num_values=24, **shape))
    >>> listener(torch.randint(0, 1024, (2, 4, 750))).shape
    torch.Size([2, 24])
    """

    def __init__(self, config: ListenerConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = nn.ModuleList(
            nn.Embedding(config.codebook_size, config.embedding_dim) for _ in range(config.num_codebooks)
        )
        widths = (config.embedding_dim, *config.widths)
        self.blocks = nn.ModuleList(_Halving(before, after, config.kernel_size) for before, after in pairwise(widths))
        self.hidden = nn.Linear(2 * widths[-1], config.hidden_dim)
        self.output = nn.Linear(config.hidden_dim, config.num_values)

    @property
    def frames_per_step(self) -> int:
        return int(2 ** len(self.blocks))

    def forward(self, codes: Int64[Tensor, "N K T"]) -> Float[Tensor, "N V"]:
        """Return the logits of all values for each clip."""
        return self.tell(self.hear(codes))

    def hear(self, codes: Int64[Tensor, "N K T"]) -> Float[Tensor, "N S D"]:
        """Return what is heard over time, a vector for every `frames_per_step` frames, which are around its middle."""
        vectors = [
            embedding(row.clamp(min=0)).masked_fill((row == UNHEARD)[..., None], 0.0)
            for embedding, row in zip(self.embeddings, codes.unbind(dim=1), strict=True)
        ]
        steps: Float[Tensor, "N S D"] = reduce(add, vectors)
        for block in self.blocks:
            steps = block(steps)
        return steps

    def tell(self, steps: Float[Tensor, "N S D"]) -> Float[Tensor, "N V"]:
        """Return the logits of all values from what was heard over time."""
        end_steps = -(-self.config.end_frames // self.frames_per_step)
        heard = torch.cat([steps.mean(dim=1), steps[:, -end_steps:].mean(dim=1)], dim=1)
        logits: Tensor = self.output(nn.functional.gelu(self.hidden(heard)))
        return logits


class _Halving(nn.Module):
    """A convolution that halves the number of steps, rounded up."""

    def __init__(self, before: int, after: int, kernel_size: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(before, after, kernel_size, stride=2, padding=kernel_size // 2)
        self.norm = nn.LayerNorm(after)

    def forward(self, steps: Float[Tensor, "N S D"]) -> Float[Tensor, "N R W"]:
        convolved: Tensor = self.conv(steps.transpose(1, 2)).transpose(1, 2)
        return nn.functional.gelu(self.norm(convolved))
