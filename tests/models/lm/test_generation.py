"""Generation: the cached loop against the uncached one and against a loop written here, prompts, guidance, seeds."""

from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.generation import GenerationSettings, generate
from solfa.models.lm.network import CodecLM, CodecLMConfig
from solfa.nn.positions import Rope, Sinusoidal
from solfa.ops.patterns import CoarseFirst, Delay, Flat, Parallel
from tests.pairs import every_pair

CODEBOOKS, SIZE, DIM = 3, 40, 32
PATTERNS = [Parallel(), Delay(), Delay(delays=(0, 2, 2)), Flat(), CoarseFirst()]
GREEDY = GenerationSettings(temperature=0.0, guidance_scale=1.0)
SAMPLED = GenerationSettings(temperature=1.1, top_k=30, top_p=0.95, guidance_scale=3.0)


def tiny_model(pattern: Any = None, positions: Any = None) -> CodecLM:
    """A model whose logits differ enough between codes for an error to change what is drawn.

    It computes in float64: what is drawn must not hang on how steps and clips that are computed together are rounded.
    """
    torch.manual_seed(3)
    config = CodecLMConfig(
        num_codebooks=CODEBOOKS,
        codebook_size=SIZE,
        dim=DIM,
        num_layers=2,
        num_heads=4,
        ffn_dim=64,
        pattern=pattern or Delay(),
        positions=positions or Sinusoidal(),
        cross_attention=True,
    )
    model = CodecLM(config)
    for parameter in model.parameters():
        parameter.data *= 6 if parameter.ndim == 2 else 1
    for table in model.embeddings:
        table.weight.data *= 16
    return model.double()


def all_conditions(num_clips: int, seed: int = 0) -> Conditions:
    generator = torch.Generator().manual_seed(seed)
    mask = torch.ones(num_clips, 5, dtype=torch.bool)
    mask[0, 3:] = False
    return Conditions(
        cross=torch.randn(num_clips, 5, DIM, generator=generator),
        cross_mask=mask,
        prepended=torch.randn(num_clips, 2, DIM, generator=generator),
        summed=0.3 * torch.randn(num_clips, 1, DIM, generator=generator),
    )


def random_codes(num_clips: int, num_frames: int) -> Tensor:
    return torch.randint(0, SIZE, (num_clips, CODEBOOKS, num_frames), generator=torch.Generator().manual_seed(8))


@pytest.mark.parametrize(
    ("pattern", "positions", "settings", "prompt_frames"),
    every_pair(PATTERNS, [Sinusoidal(), Rope()], [GREEDY, SAMPLED], [None, 0, 3, 10]),
    ids=lambda value: getattr(value, "kind", None),
)
def test_the_cache_changes_no_code(
    pattern: Any, positions: Any, settings: GenerationSettings, prompt_frames: int | None
) -> None:
    model = tiny_model(pattern, positions)
    prompt = None if prompt_frames is None else random_codes(2, prompt_frames)
    arguments = (model, all_conditions(2), 10, settings, [4, 5], prompt)
    cached, uncached = generate(*arguments), generate(*arguments, use_cache=False)
    assert torch.equal(cached, uncached)
    assert cached.shape == (2, CODEBOOKS, 10)
    assert cached.min() >= 0 and cached.max() < SIZE
    if prompt is not None:
        assert torch.equal(cached[:, :, :prompt_frames], prompt)


def greedy_by_definition(model: CodecLM, conditions: Conditions, codes: Tensor, num_known: int, scale: float) -> Tensor:
    """Fill `codes` [K, T] from frame `num_known` on, one forward per step and codebook, as the layout says."""
    layout = model.config.pattern.layout(*codes.shape)
    null = Conditions(*(None if part is None else torch.zeros_like(part) for part in conditions))
    null = null._replace(cross_mask=None)
    codes = codes.clone()
    for step in range(layout.shape[1]):
        tokens = torch.full((1, CODEBOOKS, step + 1), SIZE)
        for codebook in range(CODEBOOKS):
            for earlier in range(step):
                frame = int(layout[codebook, earlier])
                if frame >= 0:
                    tokens[0, codebook, earlier + 1] = codes[codebook, frame]
        given, without = (model(tokens, chosen)[0, :, -1] for chosen in (conditions, null))
        logits = without + scale * (given - without)
        for codebook in range(CODEBOOKS):
            if layout[codebook, step] >= num_known:
                codes[codebook, layout[codebook, step]] = logits[codebook].argmax()
    return codes


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.kind)
@pytest.mark.parametrize("prompt_frames", [0, 2])
@torch.no_grad()
def test_guided_greedy_generation_matches_its_definition(pattern: Any, prompt_frames: int) -> None:
    model = tiny_model(pattern).eval()
    conditions = all_conditions(1)
    prompt = random_codes(1, prompt_frames)
    settings = GenerationSettings(temperature=0.0, guidance_scale=2.5)
    start = torch.zeros(CODEBOOKS, 6, dtype=torch.int64)
    start[:, :prompt_frames] = prompt[0]
    expected = greedy_by_definition(model, conditions, start, prompt_frames, 2.5)
    assert torch.equal(generate(model, conditions, 6, settings, [0], prompt)[0], expected)
    assert len(expected[:, prompt_frames:].unique()) > 3, "a model that repeats itself would prove little"


def test_a_clip_does_not_depend_on_the_clips_beside_it() -> None:
    model, conditions = tiny_model(), all_conditions(4)
    together = generate(model, conditions, 8, SAMPLED, [11, 12, 13, 14])
    for row in range(4):
        alone = Conditions(*(None if part is None else part[row : row + 1] for part in conditions))
        assert torch.equal(generate(model, alone, 8, SAMPLED, [11 + row])[0], together[row])


def test_the_seed_decides_what_is_drawn() -> None:
    codes = generate(tiny_model(), Conditions.none(), 8, SAMPLED, [1, 2, 1])
    assert torch.equal(codes[0], codes[2])
    assert not torch.equal(codes[0], codes[1])


def test_a_guidance_scale_of_one_reads_only_the_given_conditions() -> None:
    model, conditions = tiny_model(), all_conditions(2)
    unguided = SAMPLED.model_copy(update={"guidance_scale": 1.0})
    almost = SAMPLED.model_copy(update={"guidance_scale": 1.0 + 1e-6})
    assert torch.equal(generate(model, conditions, 8, unguided, [1, 2]), generate(model, conditions, 8, almost, [1, 2]))
    assert not torch.equal(
        generate(model, conditions, 8, unguided, [1, 2]), generate(model, conditions, 8, SAMPLED, [1, 2])
    )


def test_progress_counts_the_steps_that_are_drawn() -> None:
    seen: list[tuple[int, int]] = []
    prompt = random_codes(1, 4)
    generate(tiny_model(), Conditions.none(), 6, GREEDY, [0], prompt, on_step=lambda *counts: seen.append(counts))
    assert seen == [(step, 4) for step in (1, 2, 3, 4)], "two frames, and two steps more for the largest delay"


def test_modules_keep_their_mode_and_results_can_be_trained_on() -> None:
    model = tiny_model()
    model.transformer.layers[0].eval()
    modes = [module.training for module in model.modules()]
    codes = generate(model, Conditions.none(), 4, GREEDY, [0])
    assert [module.training for module in model.modules()] == modes
    model(codes, Conditions.none()).sum().backward()
    assert model.heads.weight.grad is not None


def test_an_error_in_the_callback_leaves_the_model_training() -> None:
    model = tiny_model().train()

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(model, Conditions.none(), 4, GREEDY, [0], on_step=stop)
    assert model.training


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seeds": []}, "seed and one frame, found 0 and 5"),
        ({"num_frames": 0}, "seed and one frame, found 2 and 0"),
        ({"conditions": all_conditions(3)}, "conditions per seed, found 3 rows of cross and 2 seeds"),
        ({"prompt": random_codes(2, 6)}, r"at most 5 frames, found \[2, 3, 6\]"),
        ({"prompt": random_codes(1, 2)}, r"2 clips, 3 codebooks .* found \[1, 3, 2\]"),
        ({"prompt": torch.full((2, CODEBOOKS, 1), SIZE)}, "codes from 0 to 39, found 40 to 40"),
    ],
)
def test_what_does_not_fit_is_one_sentence(change: dict[str, Any], told: str) -> None:
    arguments: dict[str, Any] = {"conditions": all_conditions(2), "num_frames": 5, "seeds": [1, 2], **change}
    with pytest.raises(ConfigError, match=f"^generate: .*{told}"):
        generate(tiny_model(), settings=GREEDY, **arguments)
