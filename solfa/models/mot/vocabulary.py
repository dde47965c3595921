"""How audio tokens become vectors of the base's width, and how the layers' output becomes logits of codes.

    delay, parallel    K tables, summed             flat    one table, one code per step

    tables ──► D ──► layers ──► heads                                           fresh ones have the base's width D
    tables ──► W ──► in_proj ──► D ──► layers ──► out_proj ──► W ──► heads      a donor's have its own width W

Logits are only computed for the codebook whose turn it is, so no other id can be drawn.
"""

from functools import reduce
from operator import add

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from solfa.models.lm.network import CodecLM
from solfa.models.mot.config import Layout, OneVocabulary
from solfa.models.mot.ledger import Ledger
from solfa.models.mot.text_base import FrozenLM

_NEW_ROWS = 0.1
"""The spread of new rows relative to the base's: small, so that they do not disturb attention."""


class SummedTables(nn.Module):
    """One table per codebook; the last row of each is the special token's."""

    def __init__(self, num_codebooks: int, codebook_size: int, width: int) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(codebook_size + 1, width) for _ in range(num_codebooks))

    def init(self, ledger: Ledger, std: float, donor: CodecLM | None) -> None:
        for index, table in enumerate(self.tables):
            weight = table.get_parameter("weight")
            if donor is None:
                ledger.draw(weight, std)
            else:
                source = donor.embeddings[index].get_parameter("weight")
                ledger.load(weight, source.detach(), f"donor embeddings.{index}")

    def forward(self, tokens: Int64[Tensor, "B K S"]) -> Float[Tensor, "B S W"]:
        rows: list[Tensor] = [table(row) for table, row in zip(self.tables, tokens.unbind(1), strict=True)]
        return reduce(add, rows)


class OneTable(nn.Module):
    """One table for all codebooks: each step reads one code; the last row is the start token's."""

    def __init__(self, num_codebooks: int, codebook_size: int, width: int, *, shared: bool) -> None:
        super().__init__()
        self.codebook_size = codebook_size
        self.num_codebooks, self.shared = num_codebooks, shared
        self.num_rows = codebook_size * (1 if shared else num_codebooks)
        self.table = nn.Embedding(self.num_rows + 1, width)

    def init(self, ledger: Ledger, std: float, donor: CodecLM | None) -> None:
        if donor is None:
            ledger.draw(self.table.weight, std)
            return
        weights = [table.get_parameter("weight").detach() for table in donor.embeddings]
        codes = torch.cat([weight[:-1] for weight in weights])
        start = reduce(add, [weight[-1:] for weight in weights])
        ledger.load(self.table.weight, torch.cat([codes, start]), "donor embeddings")

    def forward(self, tokens: Int64[Tensor, "B K S"]) -> Float[Tensor, "B S W"]:
        own = torch.arange(self.num_codebooks, device=tokens.device) * (0 if self.shared else self.codebook_size)
        ids = torch.where(tokens < self.codebook_size, tokens + own[:, None], -1).amax(dim=1)
        rows: Tensor = self.table(ids.where(ids >= 0, self.num_rows))
        return rows


class AudioVocabulary(nn.Module):
    """Tables, heads and, if they are a donor's, projections between its width and the base's."""

    def __init__(
        self, layout: Layout, num_codebooks: int, codebook_size: int, dim: int, donor_width: int | None
    ) -> None:
        super().__init__()
        width = donor_width or dim
        shared = isinstance(layout, OneVocabulary) and layout.ids == "shared"
        self.num_codebooks = num_codebooks
        self.tables: SummedTables | OneTable = (
            OneTable(num_codebooks, codebook_size, width, shared=shared)
            if isinstance(layout, OneVocabulary)
            else SummedTables(num_codebooks, codebook_size, width)
        )
        self.in_proj = None if donor_width is None else nn.Linear(width, dim, bias=False)
        self.out_proj = None if donor_width is None else nn.Linear(dim, width, bias=False)
        self.heads = nn.Parameter(torch.empty(1 if shared else num_codebooks, codebook_size, width))

    def init_from(self, base: FrozenLM, ledger: Ledger, donor: CodecLM | None) -> None:
        """Initialise the weights; `donor` is one whose tables and heads are used."""
        self.tables.init(ledger, _NEW_ROWS * base.embedding_std, donor)
        if donor is None or self.in_proj is None or self.out_proj is None:
            ledger.draw(self.heads, _NEW_ROWS * base.output_std)
            return
        ledger.load(self.heads, donor.heads.weight.detach().view_as(self.heads), "donor heads")
        # Drawn so that embedded audio has the spread of embedded text, and heads read vectors with unit spread.
        summed = 1 if isinstance(self.tables, OneTable) else self.num_codebooks
        spread = float(torch.cat([table.get_parameter("weight").detach() for table in donor.embeddings]).std())
        ledger.draw(self.in_proj.weight, base.embedding_std / (spread * (summed * self.in_proj.in_features) ** 0.5))
        ledger.draw(self.out_proj.weight, self.out_proj.in_features**-0.5)

    def freeze_donated(self) -> None:
        """Freeze tables and heads."""
        self.tables.requires_grad_(False)
        self.heads.requires_grad_(False)

    def embed(self, tokens: Int64[Tensor, "B K S"]) -> Float[Tensor, "B S D"]:
        """Embed the codes of each step together."""
        rows: Tensor = self.tables(tokens)
        return rows if self.in_proj is None else self.in_proj(rows)

    def logits(self, hidden: Float[Tensor, "B S D"]) -> Float[Tensor, "B K S V"]:
        """Return the logits of every codebook after each step."""
        heads = self.heads.expand(self.num_codebooks, -1, -1)
        return torch.einsum("bsw,kvw->bksv", self._narrowed(hidden), heads.to(hidden.dtype))

    def frame_logits(self, hidden: Float[Tensor, "B S D"], steps: Int64[Tensor, "K T"]) -> Float[Tensor, "B K T V"]:
        """Return the logits of each codebook's code at each frame, which step `steps[k, t]` predicts."""
        heads = self.heads.expand(self.num_codebooks, -1, -1)
        return torch.einsum("bktw,kvw->bktv", self._narrowed(hidden)[:, steps], heads.to(hidden.dtype))

    def _narrowed(self, hidden: Float[Tensor, "B S D"]) -> Float[Tensor, "B S W"]:
        return hidden if self.out_proj is None else self.out_proj(hidden)
