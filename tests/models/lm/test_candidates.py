"""How well codes agree with their conditions: what the definition says, and nothing where there is nothing to say."""

from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.models.lm.candidates import best_candidate, blind_log_probs
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
    rows = torch.cat([summed, torch.zeros_like(summed)])
    found = blind_log_probs(model, Conditions(summed=rows), codes)
    for clip, row in zip(codes, found.tolist(), strict=True):
        # Sums of some twenty log-probabilities in float32, each at most a few tens.
        assert row == pytest.approx([blind_log_prob(model, one[None], clip) for one in rows], abs=1e-3)
    assert (found[:, 0] - found[:, 1]).std() > 1, "clips differ in what conditions explain"


def test_without_conditions_all_candidates_are_alike_and_the_first_is_taken() -> None:
    model = network({"kind": "delay"})
    found = blind_log_probs(model, Conditions.none(), torch.randint(0, 8, (2, 3, FRAMES)))
    assert torch.equal(found[:, 0], found[:, 1])
    assert best_candidate(found) == 0


def test_near_misses_decide_among_the_half_that_agrees_best() -> None:
    told, nothing = [-10.0, -11.0, -12.0, -30.0], [-20.0, -20.0, -20.0, -20.0]
    near = [[-9.0, -13.0, -40.0, -90.0], [-10.0, -12.0, -40.0, -90.0]]
    assert best_candidate(torch.tensor([told, nothing]).T) == 0
    assert best_candidate(torch.tensor([told, nothing, *near]).T) == 1, "margins of the first two: -0.5, 1.5"
    assert best_candidate(torch.tensor([told[:1], nothing[:1], near[0][:1]]).T) == 0, "one is its own half"


def test_a_listener_decides_instead_of_near_misses() -> None:
    told, nothing = [-10.0, -11.0, -12.0, -30.0], [-20.0, -20.0, -20.0, -20.0]
    near = [[-9.0, -13.0, -40.0, -90.0], [-10.0, -12.0, -40.0, -90.0]]
    for rows in ([told, nothing], [told, nothing, *near]):
        assert best_candidate(torch.tensor(rows).T, torch.tensor([-0.1, -0.2, -0.3, -0.4])) == 0
        found = best_candidate(torch.tensor(rows).T, torch.tensor([-0.4, -0.3, -0.2, -0.1]))
        assert found == 2, "the fourth agrees least, and is dropped"
