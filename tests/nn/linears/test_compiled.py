"""Products in C: those of the rounded weights, for a row always the same, on every kind of processor."""

import copy

import pytest
import torch
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.nn.kernels.formats import Float16Format, Float32Format, Int4Format, Int8Format, WeightFormat
from solfa.nn.kernels.library import NoKernelError
from solfa.nn.kernels.structures import load_decoder
from solfa.nn.linears.compiled import CompiledLinear, compile_linears, round_linear

FORMATS = [Float32Format(), Float16Format(), Int8Format(), Int4Format()]
every_format = pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.bits)
PROCESSORS = {
    "AVX2": "-mno-avx512f",
    "AVX-512 without VNNI": "-mno-avx512vnni",
    "no vectors": "-mno-avx512f -mno-avx2 -mno-avx -mno-fma -mno-f16c",
}


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    """Skip where nothing compiles."""
    try:
        load_decoder()
    except NoKernelError as reason:
        pytest.skip(f"no kernel here: {reason}")


def compiled(linear: nn.Linear, kind: WeightFormat) -> CompiledLinear:
    layer = compile_linears(nn.Sequential(copy.deepcopy(linear)), kind)[0]
    assert isinstance(layer, CompiledLinear)
    return layer


def expected(linear: nn.Linear, kind: WeightFormat, x: Tensor) -> tuple[Tensor, Tensor]:
    """Multiply by the rounded weights in float64; also return how far a product may be from that.

    Sums of I products in float32 are off by at most I units in the last place of the sum of magnitudes, and there are
    a few more operations. Inputs move by half a level: 1/65534 of the largest of a row, or 1/254 of that of a group.
    """
    rounded = copy.deepcopy(linear)
    round_linear(rounded, kind)
    weight = rounded.weight.detach().double()
    bound = (linear.in_features + 8) * 2.0**-24 * (x.double().abs() @ weight.abs().T)
    if isinstance(kind, Int8Format):
        bound += x.double().abs().amax(-1, keepdim=True) / 65534 * weight.abs().sum(1)
    if isinstance(kind, Int4Format):
        groups = x.double().unflatten(-1, (-1, 32)).abs().amax(-1) / 254
        bound += groups @ weight.abs().unflatten(1, (-1, 32)).sum(2).T
    product = x.double() @ weight.T
    return product if linear.bias is None else product + linear.bias.double(), bound + 1e-6


@every_format
@pytest.mark.parametrize(("num_in", "num_out", "rows"), [(64, 64, 1), (96, 50, 2), (1056, 130, 7), (64, 80, 125)])
@torch.no_grad()
def test_a_product_is_that_of_the_rounded_weights(kind: WeightFormat, num_in: int, num_out: int, rows: int) -> None:
    linear = nn.Linear(num_in, num_out, bias=rows == 2)
    x = torch.randn(rows, num_in)
    x[0, 0] = 30
    found, (wanted, bound) = compiled(linear, kind)(x), expected(linear, kind, x)
    assert ((found - wanted).abs() <= bound).all()
    assert found.abs().max() > 1


@every_format
@torch.no_grad()
def test_a_row_gives_the_same_in_any_batch_and_with_any_number_of_threads(kind: WeightFormat) -> None:
    layer = compiled(nn.Linear(1056, 130), kind)
    x = torch.randn(5, 13, 1056) * torch.logspace(-4, 4, 13)[:, None]
    together = layer(x)
    try:
        torch.set_num_threads(3)
        assert torch.equal(layer(x), together)
    finally:
        torch.set_num_threads(1)
    for place in range(0, 65, 9):
        assert torch.equal(layer(x.view(65, 1056)[place]), together.view(65, 130)[place])


@pytest.mark.slow
@every_format
@pytest.mark.parametrize("processor", PROCESSORS)
@torch.no_grad()
def test_every_processor_multiplies_alike(processor: str, kind: WeightFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    linear, x = nn.Linear(1056, 130, bias=False), torch.randn(9, 1056)
    monkeypatch.setenv("CC", f"cc {PROCESSORS[processor]}")
    try:
        found = compiled(linear, kind)(x)
    except NoKernelError as reason:
        pytest.skip(f"another compiler, or another family of processors: {reason}")
    wanted, bound = expected(linear, kind, x)
    assert ((found - wanted).abs() <= bound).all()


def test_the_float_weights_are_freed_and_cannot_be_saved() -> None:
    model = compile_linears(nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64)), Int8Format())
    assert [name for name, _ in model.named_parameters()] == ["1.weight", "1.bias"]
    with pytest.raises(ConfigError, match=r"0\.weight: .* cannot be saved"):
        model.state_dict()


@pytest.mark.parametrize("wrong", [{"device": "meta"}, {"dtype": torch.float64}])
def test_other_devices_and_numbers_are_left_to_torch(wrong: dict[str, object]) -> None:
    with pytest.raises(NoKernelError, match=r"float32 on a CPU, but 0\.weight is"):
        compile_linears(nn.Sequential(nn.Linear(8, 8, **wrong)), Float32Format())  # type: ignore[arg-type]


def test_heads_have_eight_bits_where_others_have_four() -> None:
    model = nn.ModuleDict({"fc1": nn.Linear(64, 64), "heads": nn.Linear(64, 64)})
    wanted = copy.deepcopy(model)
    round_linear(wanted["heads"], Int8Format())
    compile_linears(model, Int4Format())
    assert torch.allclose(model["heads"](torch.eye(64)), wanted["heads"](torch.eye(64)), atol=1e-4)
    assert not torch.allclose(model["fc1"](torch.eye(64)), wanted["fc1"](torch.eye(64)), atol=1e-3)


def test_a_copy_multiplies_the_same() -> None:
    layer = compiled(nn.Linear(64, 64), Int4Format())
    x = torch.randn(3, 64)
    before = layer(x)
    other = copy.deepcopy(layer)
    del layer
    assert torch.equal(other(x), before)
