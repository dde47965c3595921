"""The codec language model: K summed embeddings, a transformer, K heads (MusicGen, arXiv 2306.05284).

A sequence starts with a step of special tokens; at step s + 1 the model reads what the layout has at step s:

    layout    a0 a1 a2 ..          targets   a0 a1 a2 a3 ..      logits at step s predict the targets of step s
              .  b0 b1 ..          inputs    *  a0 a1 a2 ..      (* is the special token, id `codebook_size`)

Weights are drawn from a normal distribution with standard deviation 0.02, as in MusicGen (those of embeddings can be
larger); norms start as identities.
"""

from functools import reduce
from operator import add
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Float32, Int64
from pydantic import Field, model_validator
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.models.lm.codes_shape import CodesShape, of_codes
from solfa.models.lm.conditions import Conditions
from solfa.nn.beat_clock import BeatClock
from solfa.nn.key_value_cache import KeyValueCache
from solfa.nn.positions import Positions, Rope, Sinusoidal
from solfa.nn.transformer import Transformer
from solfa.ops.patterns import Delay, Parallel, Pattern, lay_out, lay_out_mask

_INITIAL_STD = 0.02


class CodecLMConfig(CodesShape):
    """The size and parts of a codec language model."""

    dim: int = Field(ge=4)
    num_layers: int = Field(ge=1)
    num_heads: int = Field(ge=1)
    ffn_dim: int = Field(ge=1)
    pattern: Pattern = Delay()
    positions: Positions = Sinusoidal()
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Applied to the input and to what each block adds, in training."""
    history_dropout: float = Field(default=0.0, ge=0, le=1)
    """How often training hides the beginning of a clip from the model, up to a frame that is drawn. It then has to go
    by its conditions, which otherwise say little that the codes before do not."""
    cross_attention: bool | None = None
    """None adds it if a conditioner needs it. Unused parameters would stop a distributed run."""
    clock: bool | None = None
    """Whether it can be told where in the beat each step is; None adds that if a conditioner needs it."""
    embedding_std: float = Field(default=_INITIAL_STD, gt=0)
    """How large the embeddings of codes and of the clock are at first. Beside sinusoids as large as 1, small ones are
    hardly heard until they have grown, which takes a good part of a short training."""

    @model_validator(mode="after")
    def _check(self) -> "CodecLMConfig":
        if self.dim % self.num_heads:
            raise ValueError(f"expected a dim divisible by num_heads, found {self.dim} and {self.num_heads}")
        if isinstance(self.positions, Rope) and self.head_dim % 2:
            raise ValueError(f"expected an even dim / num_heads for rope, found {self.head_dim}")
        return self

    @property
    def head_dim(self) -> int:
        return self.dim // self.num_heads

    def sized(
        self, num_codebooks: int, codebook_size: int, *, cross_attention: bool = False, clock: bool = False
    ) -> "CodecLMConfig":
        """Fill in what the dataset and the conditioners determine, and refuse contradictions."""
        if cross_attention and self.cross_attention is False:
            raise ConfigError(
                "model.cross_attention: a conditioner with fuse=cross needs it, found false; "
                "leave it out, or fuse that conditioner another way"
            )
        if clock and self.clock is False:
            raise ConfigError("model.clock: a conditioner of kind tempo needs it, found false; leave it out")
        if clock and not isinstance(self.pattern, Delay | Parallel):
            raise ConfigError(
                "model.pattern: with a conditioner of kind tempo, expected delay or parallel (a step for every frame), "
                f"found {self.pattern.kind}; change the pattern, or leave that conditioner out"
            )
        crossed = cross_attention if self.cross_attention is None else self.cross_attention
        update = {"cross_attention": crossed, "clock": clock if self.clock is None else self.clock}
        return of_codes(self, num_codebooks, codebook_size).model_copy(update=update)


class CodecLM(nn.Module):
    """Predicts the codes of each step from those of earlier steps and from conditions.

    >>> import torch
    >>> from solfa.models import CodecLM, CodecLMConfig, Conditions
    >>> config = CodecLMConfig(num_codebooks=4, codebook_size=32, dim=16, num_layers=1, num_heads=2, ffn_dim=32)
    >>> model = CodecLM(config)
    >>> tokens = torch.full((2, 4, 13), model.special)  # [B, K, S]
    >>> model(tokens, Conditions.none()).shape  # [B, K, S, V]
    torch.Size([2, 4, 13, 32])
    """

    def __init__(self, config: CodecLMConfig) -> None:
        super().__init__()
        self.config = config
        self.num_codebooks, self.codebook_size = config.codes_shape
        self.embeddings = nn.ModuleList(
            nn.Embedding(self.codebook_size + 1, config.dim) for _ in range(self.num_codebooks)
        )
        self.transformer = Transformer(
            config.num_layers,
            config.dim,
            config.num_heads,
            config.ffn_dim,
            config.dropout,
            cross_attention=bool(config.cross_attention),
        )
        self.clock = BeatClock(config.dim) if config.clock else None
        self.heads = nn.Linear(config.dim, self.num_codebooks * self.codebook_size, bias=False)
        """All codebooks' heads in one, codebook by codebook: row k * codebook_size + v."""
        self.apply(_initialise)
        for part in (self.embeddings, self.clock):
            for parameter in () if part is None else part.parameters():
                parameter.data.mul_(config.embedding_std / _INITIAL_STD)

    @property
    def device(self) -> torch.device:
        return self.transformer.norm.weight.device

    @property
    def special(self) -> int:
        """The id of the token where there is no code."""
        return self.codebook_size

    def layout(self, num_frames: int) -> Int64[Tensor, "K S"]:
        """Return which frame each codebook has at each step of a clip."""
        return self.config.pattern.layout(self.num_codebooks, num_frames).to(self.device)

    def forward(
        self, tokens: Int64[Tensor, "B K S"], conditions: Conditions, cache: KeyValueCache | None = None
    ) -> Float[Tensor, "B K S V"]:
        """Return the logits of what follows each step; with a cache, `tokens` are only the new steps."""
        return self.logits(self.hidden(tokens, conditions, cache))

    def hidden(
        self, tokens: Int64[Tensor, "B K S"], conditions: Conditions, cache: KeyValueCache | None = None
    ) -> Float[Tensor, "B S D"]:
        """Return what the heads read. Prepended conditions enter the cache with the first call and are not returned."""
        self._check_conditions(conditions)
        x = self._embed(tokens)
        cross, prepended, summed = (
            None if part is None else part.to(x.dtype)
            for part in (conditions.cross, conditions.prepended, conditions.summed)
        )
        if summed is not None:
            x = x + summed
        start = 0 if cache is None else cache.position
        if conditions.pulses is not None:
            assert self.clock is not None
            first = max(0, start - conditions.num_steps)
            steps = torch.arange(first, first + x.shape[1], device=x.device)
            x = x + self.clock(steps, conditions.pulses).to(x.dtype)
        if prepended is not None and start == 0:
            x = torch.cat([prepended, x], dim=1)
        positions = torch.arange(start, start + x.shape[1], device=x.device)
        embedded = self.config.positions.embedding(positions, self.config.dim)
        if embedded is not None:
            x = x + embedded.to(x.dtype)
        x = F.dropout(x, self.config.dropout, self.training)
        angles = self.config.positions.rotation(positions, self.config.head_dim)
        read: Tensor = self.transformer(x, angles, cross, conditions.cross_mask, cache)
        return read[:, x.shape[1] - tokens.shape[2] :]

    def logits(self, hidden: Float[Tensor, "B S D"]) -> Float[Tensor, "B K S V"]:
        """Apply the heads."""
        flat: Tensor = self.heads(hidden)
        return flat.view(*flat.shape[:2], self.num_codebooks, self.codebook_size).transpose(1, 2)

    def new_cache(self, batch_size: int, max_steps: int) -> KeyValueCache:
        """Allocate keys and values for `max_steps` steps, including those of prepended conditions."""
        weight = self.transformer.norm.weight
        return KeyValueCache(
            self.config.num_layers,
            batch_size,
            self.config.num_heads,
            max_steps,
            self.config.head_dim,
            device=weight.device,
            dtype=self.transformer.cache_dtype,
        )

    def _embed(self, tokens: Int64[Tensor, "B K S"]) -> Float[Tensor, "B S D"]:
        rows: list[Tensor] = [table(row) for table, row in zip(self.embeddings, tokens.unbind(1), strict=True)]
        return reduce(add, rows)

    def _check_conditions(self, conditions: Conditions) -> None:
        if conditions.cross is not None and not self.config.cross_attention:
            raise ConfigError(
                "model: found a condition for cross-attention, which the model does not have; "
                "set cross_attention, or prepend or sum the condition"
            )
        if conditions.pulses is not None and self.clock is None:
            raise ConfigError(
                "model: found a tempo, and the model has no clock; set `clock`, or leave out the condition"
            )


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=_INITIAL_STD)


class InputsAndTargets(NamedTuple):
    """What the model reads, what it should predict at the same steps, and where that counts."""

    inputs: Int64[Tensor, "B K S"]
    targets: Int64[Tensor, "B K S"]
    mask: Bool[Tensor, "B K S"]


def inputs_and_targets(
    codes: Int64[Tensor, "B K T"], mask: Bool[Tensor, "B T"], layout: Int64[Tensor, "K S"], special: int
) -> InputsAndTargets:
    """Lay out codes for training; the codes of padded frames make no difference.

    >>> import torch
    >>> from solfa.models import inputs_and_targets
    >>> from solfa.ops import Delay
    >>> codes, mask = torch.tensor([[[1, 2], [3, 4]]]), torch.tensor([[True, True]])
    >>> laid = inputs_and_targets(codes, mask, Delay().layout(num_codebooks=2, num_frames=2), special=9)
    >>> laid.inputs
    tensor([[[9, 1, 2],
             [9, 9, 3]]])
    >>> laid.targets
    tensor([[[1, 2, 9],
             [9, 3, 4]]])
    """
    laid_mask = lay_out_mask(mask, layout)
    # Later codebooks of the last real frames are next to earlier ones of padded frames, which generation never has.
    targets = lay_out(codes, layout, special).masked_fill(~laid_mask, special)
    inputs = F.pad(targets[..., :-1], (1, 0), value=special)
    return InputsAndTargets(inputs, targets, laid_mask)


def hide_beginnings(
    inputs: Int64[Tensor, "B K S"], num_frames: Int64[Tensor, "B"], special: int
) -> Int64[Tensor, "B K S"]:
    """Put the special token where clips begin: the model reads none of the codes in the first steps.

    >>> import torch
    >>> from solfa.models.lm.network import hide_beginnings
    >>> hide_beginnings(torch.tensor([[[9, 1, 2, 3]], [[9, 4, 5, 6]]]), torch.tensor([0, 2]), special=9)
    tensor([[[9, 1, 2, 3]],
    <BLANKLINE>
            [[9, 9, 9, 6]]])
    """
    steps = torch.arange(inputs.shape[2], device=inputs.device)
    return inputs.masked_fill((steps <= num_frames[:, None])[:, None], special)


def cross_entropy(
    logits: Float[Tensor, "B K S V"], targets: Int64[Tensor, "B K S"], mask: Bool[Tensor, "B K S"]
) -> Float32[Tensor, "K"]:
    """Sum the nats of each codebook over its unmasked steps.

    >>> import torch
    >>> from solfa.models import cross_entropy
    >>> logits, targets = torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, dtype=torch.int64)
    >>> mask = torch.tensor([[[True, True, False], [True, False, False]]])
    >>> cross_entropy(logits, targets, mask) / mask.sum(dim=(0, 2))  # log(8) per code, for each codebook
    tensor([2.0794, 2.0794])
    """
    ignored = -100
    # Step-major, as the fused heads leave them in memory, so flattening copies nothing.
    rows = logits.transpose(1, 2).flatten(0, 2).float()
    wanted = targets.masked_fill(~mask, ignored).transpose(1, 2).flatten()
    nats = F.cross_entropy(rows, wanted, reduction="none", ignore_index=ignored)
    return nats.view(-1, targets.shape[1]).sum(0)
