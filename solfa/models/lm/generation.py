"""Generate codes with a language model: step by step along its pattern's layout, from scratch or from a prompt.

Known codes are in the sequence from the start; a step with an unknown code is drawn from the logits of everything
before it. With delays 0, 1, 2 and a prompt of two frames (p), five steps are drawn (x):

    *  p p x x x . .        One forward pass reads the steps * to p p (the prompt), later ones read one step each.
    *  . p p x x x .        Every pattern works the same way: at each step, only codebooks with a frame after the prompt
    *  . . p p x x x        are drawn; the others keep their prompt's code or the special token.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float, Int64
from pydantic import Field
from torch import Tensor, nn

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.nn.key_value_cache import KeyValueCache
from solfa.ops.patterns import lay_out, take_back
from solfa.ops.sampling import draw, guide

OnStep = Callable[[int, int], None]
"""Called after each drawn step with how many are done and the total."""


@runtime_checkable
class BatchConditions(Protocol):
    """The conditions of every clip, and what to guide away from."""

    @property
    def is_none(self) -> bool: ...
    @property
    def num_steps(self) -> int: ...
    def num_rows(self) -> Mapping[str, int]: ...
    def doubled_with_null(self) -> "BatchConditions": ...


C = TypeVar("C", bound=BatchConditions, contravariant=True)


@runtime_checkable
class CodesModel(Protocol[C]):
    """A model that reads laid-out codes, with a cache for what it has read."""

    num_codebooks: int
    codebook_size: int

    @property
    def device(self) -> torch.device: ...
    @property
    def special(self) -> int: ...
    def layout(self, num_frames: int) -> Int64[Tensor, "K S"]: ...
    def new_cache(self, batch_size: int, max_steps: int) -> KeyValueCache: ...
    def hidden(
        self, tokens: Int64[Tensor, "B K S"], conditions: C, cache: KeyValueCache | None = None, /
    ) -> Float[Tensor, "B S D"]: ...
    def logits(self, hidden: Float[Tensor, "B S D"], /) -> Float[Tensor, "B K S V"]: ...


class GenerationSettings(Config):
    """How codes are drawn."""

    temperature: float = Field(default=1.0, ge=0)
    """0 draws greedily."""
    top_k: int = Field(default=250, ge=0)
    """Keep only the k most probable codes; 0 is off."""
    top_p: float = Field(default=0.0, ge=0, le=1)
    """Keep only the most probable codes that sum to p; 0 is off."""
    guidance_scale: float = Field(default=3.0, ge=0)
    """How far to move away from the unconditional logits; 1 is off. It has no effect without conditions."""


def generate(
    model: CodesModel[C],
    conditions: C,
    num_frames: int,
    settings: GenerationSettings,
    seeds: Sequence[int],
    prompt: Int64[Tensor, "B K T0"] | None = None,
    on_step: OnStep | None = None,
    use_cache: bool = True,
) -> Int64[Tensor, "B K {num_frames}"]:
    """Generate one clip of `num_frames` frames per seed, including the prompt; never the special token.

    `conditions` have one row per clip. Without a cache, every step reads the whole sequence again, for the same codes.

    >>> from solfa.models import CodecLM, CodecLMConfig, Conditions, GenerationSettings, generate
    >>> config = CodecLMConfig(num_codebooks=2, codebook_size=16, dim=16, num_layers=1, num_heads=2, ffn_dim=32)
    >>> generate(CodecLM(config), Conditions.none(), 10, GenerationSettings(top_k=8), seeds=[1, 2, 3]).shape
    torch.Size([3, 2, 10])
    """
    num_known = 0 if prompt is None else prompt.shape[2]
    _check(model, conditions, num_frames, len(seeds), prompt)
    layout = model.layout(num_frames)
    tokens = _start(model, layout, len(seeds), num_frames, prompt)
    steps = ((layout >= num_known).any(0)).nonzero().flatten().tolist()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    with _for_generating(model):
        reader = _Reader(model, conditions, settings.guidance_scale, tokens, use_cache)
        for done, step in enumerate(steps, 1):
            logits = reader.logits_after(step)
            codes = draw(logits, settings.temperature, settings.top_k, settings.top_p, generators)
            column = tokens[:, :, step + 1]
            torch.where(layout[:, step] >= num_known, codes, column, out=column)
            if on_step is not None:
                on_step(done, len(steps))
    return take_back(tokens[:, :, 1:], layout, num_frames)


@contextmanager
def _for_generating(model: object) -> Iterator[None]:
    """Switch off gradients and dropout, and restore the model afterwards."""
    assert isinstance(model, nn.Module)
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module in training:
            module.training = True


class _Reader:
    """Computes the guided logits at a step; its cache has what it read before."""

    def __init__(
        self,
        model: CodesModel[Any],
        conditions: BatchConditions,
        guidance_scale: float,
        tokens: Tensor,
        use_cache: bool,
    ) -> None:
        self.model = model
        self.tokens = tokens
        self.guidance_scale = guidance_scale
        self.guided = guidance_scale != 1 and not conditions.is_none
        self.conditions = conditions.doubled_with_null() if self.guided else conditions
        self.cache = self._new_cache() if use_cache else None
        self.num_read = 0

    def _new_cache(self) -> KeyValueCache:
        batch, _, num_tokens = self.tokens.shape
        return self.model.new_cache(batch * (2 if self.guided else 1), self.conditions.num_steps + num_tokens - 1)

    def logits_after(self, step: int) -> Float[Tensor, "B K V"]:
        """Read up to `step` (from the start if there is no cache) and predict what follows."""
        start = 0 if self.cache is None else self.num_read
        new = self.tokens[:, :, start : step + 1]
        self.num_read = step + 1
        hidden = self.model.hidden(new.repeat(2, 1, 1) if self.guided else new, self.conditions, self.cache)
        logits = self.model.logits(hidden[:, -1:])[:, :, 0]
        if not self.guided:
            return logits
        conditional, unconditional = logits.chunk(2)
        return guide(conditional, unconditional, self.guidance_scale)


def _start(
    model: CodesModel[Any],
    layout: Int64[Tensor, "K S"],
    num_clips: int,
    num_frames: int,
    prompt: Int64[Tensor, "B K T0"] | None,
) -> Int64[Tensor, "B K tokens"]:
    """Lay out what is known: a step of special tokens, then the prompt's codes; special tokens elsewhere."""
    special = model.special
    known = torch.full((num_clips, model.num_codebooks, num_frames), special, device=layout.device)
    if prompt is not None:
        known[:, :, : prompt.shape[2]] = prompt.to(layout.device)
    return torch.nn.functional.pad(lay_out(known, layout, special), (1, 0), value=special)


def _check(
    model: CodesModel[Any],
    conditions: BatchConditions,
    num_frames: int,
    num_clips: int,
    prompt: Int64[Tensor, "B K T0"] | None,
) -> None:
    if num_clips < 1 or num_frames < 1:
        raise ConfigError(
            f"generate: expected at least one seed and one frame, found {num_clips} and {num_frames}; "
            "pass one seed per clip and the number of frames"
        )
    for name, num_rows in conditions.num_rows().items():
        if num_rows != num_clips:
            raise ConfigError(
                f"generate: expected one row of conditions per seed, found {num_rows} rows of {name} and "
                f"{num_clips} seeds; pass as many seeds as clips"
            )
    if prompt is None:
        return
    if len(prompt) != num_clips or prompt.shape[1] != model.num_codebooks or prompt.shape[2] > num_frames:
        raise ConfigError(
            f"generate: expected a prompt of {num_clips} clips, {model.num_codebooks} codebooks and at most "
            f"{num_frames} frames, found {list(prompt.shape)}; cut the prompt, or generate more frames"
        )
    if prompt.numel() and not 0 <= int(prompt.min()) <= int(prompt.max()) < model.codebook_size:
        raise ConfigError(
            f"generate: expected a prompt of codes from 0 to {model.codebook_size - 1}, found {int(prompt.min())} to "
            f"{int(prompt.max())}; encode the prompt with the training data's codec"
        )
