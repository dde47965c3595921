"""Of several candidates for a clip, which one fits its conditions, as the model hears it.

    agreement = log p(codes | conditions) - log p(codes | nothing)
    margin    = log p(codes | conditions) - mean of log p(codes | a near miss)

every step read blindly: no code before it is heard. A model that hears what it has drawn goes on with it, right or
wrong, and finds it probable. Blindly it can only go by the conditions, so what does not fit them counts against a clip
from its first frame to its last. A model has learnt to read blindly if beginnings were hidden from it in training
(`history_dropout`).

Near misses differ from the conditions in one value that is easily taken for the right one, such as a key a fifth away.
Agreement hardly tells them apart, because most of it is the instrument and the beat, which they share. So agreement
chooses the better half of the candidates, and the margin chooses one of these.

A listener (`solfa.models.listener`) has learnt from clips whose value is known, and tells much better. If there is one,
agreement only drops the worst quarter, and the listener chooses one of the others.
"""

import math

import torch
from jaxtyping import Float, Float32, Int64
from pydantic import PositiveInt
from torch import Tensor

from solfa.models.lm.conditions import Conditions
from solfa.models.lm.generation import GenerationSettings
from solfa.models.lm.network import CodecLM
from solfa.ops.patterns import lay_out

TOLD, NOTHING, NEAR_MISSES = 0, 1, 2
"""The rows of conditions that candidates are judged by; near misses are the last ones, if there are any."""
KEPT_BY_MARGIN, KEPT_BY_LISTENER = 0.5, 0.75
"""How many of the candidates, those that agree best, the margin or a listener chooses from."""


class CandidateSettings(GenerationSettings):
    """How codes are drawn, and among how many clips each one is chosen."""

    candidates: PositiveInt = 1
    """Draw so many of every clip, and keep the one that fits its conditions best."""


@torch.inference_mode()
def blind_log_probs(model: CodecLM, conditions: Conditions, codes: Int64[Tensor, "N K T"]) -> Float32[Tensor, "N R"]:
    """Return the nats of each clip under each row of conditions, all codes before a step unheard.

    >>> import torch
    >>> from solfa.models import CodecLM, CodecLMConfig, Conditions
    >>> from solfa.models.lm.candidates import blind_log_probs
    >>> config = CodecLMConfig(num_codebooks=2, codebook_size=16, dim=16, num_layers=1, num_heads=2, ffn_dim=32)
    >>> summed = torch.zeros(2, 1, 16)  # two rows that say nothing
    >>> found = blind_log_probs(CodecLM(config), Conditions(summed=summed), torch.zeros(3, 2, 10, dtype=torch.int64))
    >>> found.shape, bool((found[:, 0] == found[:, 1]).all())
    (torch.Size([3, 2]), True)
    """
    layout = model.layout(codes.shape[2])
    # A model without conditions is told nothing, twice.
    num_rows = max(conditions.num_rows().values(), default=NEAR_MISSES)
    blind = torch.full((num_rows, *layout.shape), model.special, device=codes.device)
    rows: Float[Tensor, "R K S V"] = model.eval()(blind, conditions).float()
    laid = lay_out(codes, layout, model.special)
    known = laid != model.special
    chosen = laid.masked_fill(~known, 0)[..., None]
    each = [row.log_softmax(dim=-1).expand(len(codes), -1, -1, -1).gather(3, chosen)[..., 0] for row in rows]
    return torch.stack([nats.masked_fill(~known, 0.0).sum(dim=(1, 2)) for nats in each], dim=1)


def best_candidate(log_probs: Float[Tensor, "N R"], heard: Float[Tensor, "N"] | None = None) -> int:
    """Choose a clip by its nats under what was told, under nothing and under near misses, in this order of columns.

    `heard` is the log-probability of what was told, as a listener finds it; it decides instead of the near misses.

    >>> import torch
    >>> from solfa.models.lm.candidates import best_candidate
    >>> best_candidate(torch.tensor([[-5.0, -9.0], [-6.0, -8.0]]))  # 4 and 2 nats are explained
    0
    >>> best_candidate(torch.tensor([[-5.0, -9.0, -5.0], [-6.0, -9.0, -8.0], [-7.0, -7.5, -9.9]]))  # 2 nats from it
    1
    """
    told = log_probs[:, TOLD]
    agreement = told - log_probs[:, NOTHING]
    if heard is None and log_probs.shape[1] == NEAR_MISSES:
        return int(agreement.argmax())
    decisive = told - log_probs[:, NEAR_MISSES:].mean(dim=1) if heard is None else heard
    share = KEPT_BY_MARGIN if heard is None else KEPT_BY_LISTENER
    better = agreement.topk(math.ceil(share * len(agreement))).indices
    return int(better[decisive[better].argmax()])
