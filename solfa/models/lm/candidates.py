"""Of several candidates for a clip, which one fits: how well codes agree with their conditions, as the model hears it.

    log p(codes | conditions) - log p(codes | nothing), every step read blindly: no code before it is heard

A model that hears what it has drawn goes on with it, right or wrong, and finds it probable. Blindly it can only go by
the conditions, so what does not fit them counts against a clip from its first frame to its last. A model has learnt to
read blindly if beginnings were hidden from it in training (`history_dropout`).
"""

import torch
from jaxtyping import Float, Float32, Int64
from pydantic import PositiveInt
from torch import Tensor

from solfa.models.lm.conditions import Conditions
from solfa.models.lm.generation import GenerationSettings
from solfa.models.lm.network import CodecLM
from solfa.ops.patterns import lay_out


class CandidateSettings(GenerationSettings):
    """How codes are drawn, and among how many clips each one is chosen."""

    candidates: PositiveInt = 1
    """Draw so many of every clip, and keep the one that agrees best with its conditions."""


@torch.inference_mode()
def agreement(model: CodecLM, conditions: Conditions, codes: Int64[Tensor, "N K T"]) -> Float32[Tensor, "N"]:
    """Return how many nats of each clip its conditions, one row for all clips, explain.

    >>> import torch
    >>> from solfa.models import CodecLM, CodecLMConfig, Conditions
    >>> from solfa.models.lm.candidates import agreement
    >>> config = CodecLMConfig(num_codebooks=2, codebook_size=16, dim=16, num_layers=1, num_heads=2, ffn_dim=32)
    >>> summed = torch.zeros(1, 1, 16)  # says nothing
    >>> agreement(CodecLM(config), Conditions(summed=summed), torch.zeros(3, 2, 10, dtype=torch.int64))
    tensor([0., 0., 0.])
    """
    layout = model.layout(codes.shape[2])
    blind = torch.full((2, *layout.shape), model.special, device=codes.device)
    told, untold = model.eval()(blind, conditions.doubled_with_null()).float().log_softmax(dim=-1)
    gained: Float[Tensor, "K S V"] = told - untold
    laid = lay_out(codes, layout, model.special)
    known = laid != model.special
    each = gained.expand(len(codes), -1, -1, -1).gather(3, laid.masked_fill(~known, 0)[..., None])[..., 0]
    return each.masked_fill(~known, 0.0).sum(dim=(1, 2))
