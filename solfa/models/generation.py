"""Generate codes with a language model: step by step along its pattern's layout, from nothing or from a prompt.

What is known stands in the sequence from the start; a step with an unknown code is drawn from the logits of all that
stands before it. With delays 0, 1, 2 and a prompt of two frames (p), five steps are drawn (x):

    *  p p x x x . .        One forward reads the steps * to p p (the prompt), the following ones read a step each.
    *  . p p x x x .        Every pattern works the same way: only codebooks that hold a frame after the prompt's are
    *  . . p p x x x        drawn at a step, the others keep their prompt's code or the special token.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int64
from pydantic import Field
from torch import Tensor

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.models.conditions import Conditions
from solfa.models.lm import CodecLM
from solfa.nn.cache import KeyValueCache
from solfa.ops.patterns import lay_out, take_back
from solfa.ops.sampling import draw, guide

OnStep = Callable[[int, int], None]
"""Called after each drawn step, with how many are done and how many there will be."""


class GenerationSettings(Config):
    """How codes are drawn."""

    temperature: float = Field(default=1.0, ge=0)
    """Zero draws greedily."""
    top_k: int = Field(default=250, ge=0)
    """Only the k most probable codes; zero is off."""
    top_p: float = Field(default=0.0, ge=0, le=1)
    """Only the most probable codes that together reach p; zero is off."""
    guidance_scale: float = Field(default=3.0, ge=0)
    """How far to move from the unconditional logits; one is off, and without conditions there is nothing to guide."""


def generate(
    model: CodecLM,
    conditions: Conditions,
    num_frames: int,
    settings: GenerationSettings,
    seeds: Sequence[int],
    prompt: Int64[Tensor, "B K T0"] | None = None,
    on_step: OnStep | None = None,
    use_cache: bool = True,
) -> Int64[Tensor, "B K {num_frames}"]:
    """Generate a clip of `num_frames` frames per seed, the prompt's frames included; never the special token.

    `conditions` have one row per clip. Without a cache every step reads the whole sequence again, for the same codes.
    """
    device = model.transformer.norm.weight.device
    num_known = 0 if prompt is None else prompt.shape[2]
    _check(model, conditions, num_frames, len(seeds), prompt)
    layout = model.config.pattern.layout(model.num_codebooks, num_frames).to(device)
    tokens = _start(model, layout, len(seeds), num_frames, prompt)
    steps = ((layout >= num_known).any(0)).nonzero().flatten().tolist()
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.inference_mode():
            reader = _Reader(model, conditions, settings.guidance_scale, tokens, use_cache)
            for done, step in enumerate(steps, 1):
                logits = reader.logits_after(step)
                codes = draw(logits, settings.temperature, settings.top_k, settings.top_p, generators)
                column = tokens[:, :, step + 1]
                torch.where(layout[:, step] >= num_known, codes, column, out=column)
                if on_step is not None:
                    on_step(done, len(steps))
    finally:
        for module in training:
            module.training = True
    return take_back(tokens[:, :, 1:], layout, num_frames)


class _Reader:
    """Gives the guided logits at a step; its cache holds what it read before."""

    def __init__(
        self, model: CodecLM, conditions: Conditions, guidance_scale: float, tokens: Tensor, use_cache: bool
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
        prefix = 0 if self.conditions.prepended is None else self.conditions.prepended.shape[1]
        return self.model.new_cache(batch * (2 if self.guided else 1), prefix + num_tokens - 1)

    def logits_after(self, step: int) -> Float[Tensor, "B K V"]:
        """Read on up to `step` (from the start, without a cache) and predict what follows it."""
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
    model: CodecLM,
    layout: Int64[Tensor, "K S"],
    num_clips: int,
    num_frames: int,
    prompt: Int64[Tensor, "B K T0"] | None,
) -> Int64[Tensor, "B K tokens"]:
    """Lay out what is known: a step of special tokens, then the prompt's codes; special where nothing is known."""
    special = model.config.special
    known = torch.full((num_clips, model.num_codebooks, num_frames), special, device=layout.device)
    if prompt is not None:
        known[:, :, : prompt.shape[2]] = prompt.to(layout.device)
    return torch.nn.functional.pad(lay_out(known, layout, special), (1, 0), value=special)


def _check(
    model: CodecLM, conditions: Conditions, num_frames: int, num_clips: int, prompt: Int64[Tensor, "B K T0"] | None
) -> None:
    if num_clips < 1 or num_frames < 1:
        raise ConfigError(
            f"generate: expected at least one seed and one frame, found {num_clips} and {num_frames}; "
            "give one seed per clip and the frames of a clip"
        )
    for name, rows in conditions._asdict().items():
        if rows is not None and len(rows) != num_clips:
            raise ConfigError(
                f"generate: expected one row of conditions per seed, found {len(rows)} rows of {name} and "
                f"{num_clips} seeds; give as many seeds as clips"
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
            f"{int(prompt.max())}; encode the prompt with the codec of the training data"
        )
