"""Steps in C: those of the network over the same rounded keys and values, alone and together, for any threads."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.generation import GenerationSettings, generate
from solfa.models.lm.network import CodecLM, CodecLMConfig
from solfa.models.lm.weight_layouts import lay_out_weights
from solfa.nn.kernels.formats import Float16Format, Float32Format, Int4Format, Int8Format
from solfa.nn.kernels.library import NoKernelError
from solfa.nn.kernels.structures import load_decoder
from solfa.nn.key_value_cache import KeyValueCache
from solfa.nn.linears.compiled import format_of, round_linear
from solfa.nn.positions import Rope, Sinusoidal

FORMATS = {"fp32": Float32Format(), "fp16": Float16Format(), "int8": Int8Format(), "int4": Int4Format()}
SETTINGS = GenerationSettings(temperature=1.1, top_k=30, top_p=0.95, guidance_scale=3.0)
CODEBOOKS, SIZE = 3, 40


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    """Skip where nothing compiles."""
    try:
        load_decoder()
    except NoKernelError as reason:
        pytest.skip(f"no kernel here: {reason}")


def make_model(dim: int = 80, num_heads: int = 5, positions: Any = None, crossed: bool = True) -> CodecLM:
    torch.manual_seed(3)
    config = CodecLMConfig(
        num_codebooks=CODEBOOKS,
        codebook_size=SIZE,
        dim=dim,
        num_layers=2,
        num_heads=num_heads,
        ffn_dim=150,
        positions=positions or Sinusoidal(),
        cross_attention=crossed,
    )
    model = CodecLM(config).eval()
    for parameter in model.parameters():
        # What starts as zero or one would hide a mistake.
        parameter.data += 0.1 * torch.randn_like(parameter) if parameter.ndim == 1 else 4 * parameter.data
    for table in model.embeddings:
        table.weight.data *= 8
    return model


def conditions_for(num_clips: int, dim: int) -> Conditions:
    generator = torch.Generator().manual_seed(0)
    mask = torch.ones(num_clips, 5, dtype=torch.bool)
    mask[0, 3:] = False
    return Conditions(
        cross=torch.randn(num_clips, 5, dim, generator=generator),
        cross_mask=mask,
        prepended=torch.randn(num_clips, 2, dim, generator=generator),
    )


def step_by_step(model: CodecLM, tokens: Tensor, conditions: Conditions, cache: KeyValueCache) -> Tensor:
    return torch.cat([model(column, conditions, cache) for column in tokens.split(1, dim=2)], dim=2)


@pytest.mark.parametrize(("layout", "cache_bits"), [(layout, 16) for layout in FORMATS] + [("fp32", 8), ("int8", 8)])
@pytest.mark.parametrize(
    ("dim", "num_heads", "positions", "crossed"),
    [(80, 5, Sinusoidal(), True), (64, 1, Rope(), True), (96, 3, Rope(), False), (48, 1, Sinusoidal(), False)],
)
@torch.inference_mode()
def test_steps_are_those_of_the_network(
    layout: Any, cache_bits: Any, dim: int, num_heads: int, positions: Any, crossed: bool
) -> None:
    if cache_bits == 8 and dim // num_heads % 32:
        with pytest.raises(ConfigError, match=r"^cache_bits: expected heads of a multiple of 32 .* found \d+;"):
            lay_out_weights(make_model(dim, num_heads), layout, "kernel", cache_bits)
        return
    model = make_model(dim, num_heads, positions, crossed)
    conditions = conditions_for(2, dim) if crossed else Conditions.none()
    tokens = torch.randint(0, SIZE + 1, (2, CODEBOOKS, 20))
    exact = copy.deepcopy(model)
    for name, linear in exact.named_modules():
        if type(linear) is torch.nn.Linear:
            round_linear(linear, format_of(name, FORMATS[layout]))
    exact = exact.double()
    shape = (2, 2, num_heads, 30, dim // num_heads)
    kept = {8: torch.int8, 16: torch.float16}[cache_bits]
    wanted = step_by_step(exact, tokens, conditions, KeyValueCache(*shape, dtype=kept))
    lay_out_weights(model, layout, "kernel", cache_bits)
    found = step_by_step(model, tokens, conditions, model.new_cache(2, 30))
    # Both round keys and values to float16, but where float32 and float64 fall on two sides of a border they differ by
    # 2^-10 of a number. Inputs of int4 are rounded to 1/254 of the largest of 32; a sum of them moves much less.
    # Of integers, such a number differs by 1/127 of the largest of its head.
    allowed = 2**-5 if layout == "int4" else 2**-10 if cache_bits == 16 else 2**-7
    assert (found - wanted).abs().max() < allowed * wanted.abs().max()
    together = model(tokens, conditions)
    assert (together - wanted).abs().max() < max(allowed, 2**-8 if cache_bits == 16 else 2**-4) * wanted.abs().max()


@pytest.mark.parametrize("layout", FORMATS)
def test_a_clip_is_drawn_the_same_beside_others(layout: Any) -> None:
    model = lay_out_weights(make_model(), layout)
    conditions = conditions_for(3, 80)._replace(prepended=None)
    together = generate(model, conditions, 8, SETTINGS, [11, 12, 13])
    for row in range(3):
        alone = Conditions(*(None if part is None else part[row : row + 1] for part in conditions))
        assert torch.equal(generate(model, alone, 8, SETTINGS, [11 + row])[0], together[row])
    assert len(together.unique()) > 10, "a model that repeats itself would prove little"


@torch.inference_mode()
def test_a_step_does_not_depend_on_the_number_of_threads() -> None:
    model = lay_out_weights(make_model(positions=Rope()), "int8")
    conditions = conditions_for(3, 80)._replace(prepended=None)
    tokens = torch.randint(0, SIZE + 1, (3, CODEBOOKS, 3))
    wanted = step_by_step(model, tokens, conditions, model.new_cache(3, 3))
    try:
        torch.set_num_threads(3)
        assert torch.equal(step_by_step(model, tokens, conditions, model.new_cache(3, 3)), wanted)
    finally:
        torch.set_num_threads(1)


@pytest.mark.parametrize(("cache_bits", "allowed"), [(16, 2**-10), (8, 2**-7)])
@torch.inference_mode()
def test_a_prompt_read_at_once_is_continued_in_steps(cache_bits: Any, allowed: float) -> None:
    model, conditions = make_model(96, 3, Rope()), conditions_for(2, 96)
    lay_out_weights(model, "fp32", "kernel", cache_bits)
    tokens = torch.randint(0, SIZE + 1, (2, CODEBOOKS, 12))
    wanted = step_by_step(model, tokens, conditions, model.new_cache(2, 14))
    cache = model.new_cache(2, 14)
    begun = model(tokens[:, :, :7], conditions, cache)
    found = torch.cat([begun, step_by_step(model, tokens[:, :, 7:], conditions, cache)], dim=2)
    assert (found - wanted).abs().max() < allowed * wanted.abs().max()
    with pytest.raises(ConfigError, match=r"at most 14 steps, found 15"):
        model(tokens[:, :, :1], conditions, cache)


@pytest.mark.parametrize("num_steps", [1, 2, 15, 16, 127, 131, 300])
@torch.inference_mode()
def test_attention_over_integers_is_that_over_what_they_stand_for(num_steps: int) -> None:
    """Whole groups and blocks of steps, and parts of them; one layer, so that rounding cannot add up."""
    config = CodecLMConfig(num_codebooks=1, codebook_size=SIZE, dim=96, num_layers=1, num_heads=3, ffn_dim=64)
    torch.manual_seed(4)
    model = CodecLM(config).eval()
    for parameter in model.transformer.layers.parameters():
        parameter.data *= 8 if parameter.ndim > 1 else 1
    exact, tokens = copy.deepcopy(model).double(), torch.randint(0, SIZE, (1, 1, num_steps))
    lay_out_weights(model, "fp32", "kernel", 8)
    ours, theirs = model.new_cache(1, num_steps), KeyValueCache(1, 1, 3, num_steps, 32, dtype=torch.int8)
    found = step_by_step(model, tokens, Conditions.none(), ours)
    wanted = step_by_step(exact, tokens, Conditions.none(), theirs)
    assert (ours.keys.int() - theirs.keys.int()).abs().max() <= 1
    assert (ours.values.int() - theirs.values.int()).abs().max() <= 1
    assert (found - wanted).abs().max() < 2**-10 * wanted.abs().max()


@torch.inference_mode()
def test_two_caches_and_a_copied_model_do_not_disturb_each_other() -> None:
    model = lay_out_weights(make_model(crossed=False), "int8")
    tokens = torch.randint(0, SIZE + 1, (3, CODEBOOKS, 6))
    other = copy.deepcopy(model)
    one, two = model.new_cache(1, 6), model.new_cache(3, 9)
    mixed = []
    for column in tokens.split(1, dim=2):
        mixed.append(model(column, Conditions.none(), two))
        model(column[:1], Conditions.none(), one)
    wanted = step_by_step(other, tokens, Conditions.none(), other.new_cache(3, 6))
    assert torch.equal(torch.cat(mixed, dim=2), wanted)


def test_the_cache_of_torch_cannot_be_chosen() -> None:
    with pytest.raises(ConfigError, match=r"^cache_bits: found 8 for the way torch"):
        lay_out_weights(make_model(), "fp32", "torch", 8)


def test_narrow_heads_are_left_to_torch(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")  # a warning only of models that are large enough to be slow
    model = make_model(dim=64, num_heads=8, crossed=False)
    wanted = generate(copy.deepcopy(model), Conditions.none(), 6, SETTINGS, [1])
    assert torch.equal(generate(lay_out_weights(model, "fp32"), Conditions.none(), 6, SETTINGS, [1]), wanted)
    assert model.transformer.stepper is None and "heads of a multiple of 16" in caplog.text


def test_without_a_compiler_torch_generates_with_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, models = torch.randint(0, SIZE + 1, (2, CODEBOOKS, 9)), {}
    for layout in FORMATS:
        with monkeypatch.context() as patch:
            models["kernel"] = lay_out_weights(make_model(crossed=False), layout)
            patch.setenv("CC", "no-such-compiler")
            models["torch"] = lay_out_weights(make_model(crossed=False), layout)
        assert models["torch"].transformer.stepper is None
        with torch.inference_mode():
            found, wanted = (models[way](tokens, Conditions.none()) for way in ("torch", "kernel"))
        allowed = 2**-5 if layout == "int4" else 2**-9
        assert (found - wanted).abs().max() < allowed * wanted.abs().max()
