"""How well codes agree with their conditions: what the definition says, and nothing where there is nothing to say."""

from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.models.lm.candidates import agreement
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.network import CodecLM, CodecLMConfig

FRAMES = 7
PATTERNS: list[dict[str, Any]] = [{"kind": "delay"}, {"kind": "parallel"}, {"kind": "flat"}]


def network(pattern: dict[str, Any]) -> CodecLM:
    torch.manual_seed(0)
    values = {"num_codebooks": 3, "codebook_size": 8, "dim": 16, "num_layers": 2, "num_heads": 2, "ffn_dim": 32}
    model = CodecLM(CodecLMConfig.model_validate({**values, "pattern": pattern}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8)
    return model.double().eval()


def blind_log_prob(model: CodecLM, summed: Tensor, codes: Tensor) -> float:
    """Look every code up in the distribution of its step, all inputs of which are the special token."""
    layout = model.layout(codes.shape[1])
    total = 0.0
    for codebook, steps in enumerate(layout.tolist()):
        for step, frame in enumerate(steps):
            if 0 <= frame < codes.shape[1]:
                inputs = torch.full((1, len(layout), step + 1), model.special)
                logits = model(inputs, Conditions(summed=summed))[0, codebook, step]
                total += float(logits.log_softmax(0)[codes[codebook, frame]])
    return total


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: str(pattern["kind"]))
@torch.no_grad()
def test_it_is_what_conditions_explain_of_codes_that_are_read_blindly(pattern: dict[str, Any]) -> None:
    model, summed = network(pattern), torch.randn(1, 1, 16, dtype=torch.float64)
    codes = torch.randint(0, 8, (4, 3, FRAMES))
    found = agreement(model, Conditions(summed=summed), codes)
    for clip, one in zip(codes, found.tolist(), strict=True):
        explained = blind_log_prob(model, summed, clip) - blind_log_prob(model, torch.zeros_like(summed), clip)
        # Sums of some twenty differences of log-probabilities in float32, each at most a few tens.
        assert one == pytest.approx(explained, abs=1e-3)
    assert found.std() > 1, "clips differ in it"


def test_a_condition_that_says_nothing_explains_nothing() -> None:
    model = network({"kind": "delay"})
    silent = Conditions(summed=torch.zeros(1, 1, 16, dtype=torch.float64))
    assert agreement(model, silent, torch.randint(0, 8, (2, 3, FRAMES))).tolist() == [0.0, 0.0]
