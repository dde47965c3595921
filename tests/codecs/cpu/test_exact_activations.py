import pytest
import torch
from torch.nn import functional as F

from solfa.codecs.cpu.exact_activations import (
    ExactSnake,
    elu,
    elu_,
    elu_by,
    every_bfloat16,
    has_exact_elu,
    has_exact_elu_bf16,
    has_exact_snake,
    numbers_to_try,
)
from solfa.codecs.cpu.frame_kernel import FrameKernel, load_frame_kernel


@pytest.fixture
def kernel() -> FrameKernel:
    loaded = load_frame_kernel()
    if loaded is None:
        pytest.skip("there is no C compiler here")
    return loaded


def test_the_compiled_elu_is_within_a_unit_of_the_last_place(kernel):
    x = torch.cat([numbers_to_try(), -torch.linspace(0, 20, 64 * 512).view(1, 512, 64).mT], dim=2)
    x = x.mT.contiguous().mT
    made, exact = elu_by(kernel, x, torch.empty_like(x)), F.elu(x.double())
    torch.testing.assert_close(made.double(), exact, rtol=1.2e-7, atol=1e-40)


def test_the_compiled_elu_keeps_what_is_no_number_or_not_finite(kernel):
    x = torch.tensor([0.0, torch.inf, -torch.inf, torch.nan, -1e30, -88.0, -104.0, 1e38]).repeat(2).view(1, 1, 16).mT
    torch.testing.assert_close(elu_by(kernel, x, torch.empty_like(x)), F.elu(x), equal_nan=True)


def test_the_compiled_elu_of_every_bfloat16_is_the_exact_one_rounded_once(kernel):
    x = every_bfloat16()
    exact = F.elu(x.double()).to(torch.bfloat16)
    torch.testing.assert_close(elu_by(kernel, x, torch.empty_like(x)), exact, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("num_channels", [1, 5, 16, 64])
@pytest.mark.parametrize("by_frames", [False, True])
def test_elu_of_bfloat16_is_that_of_pytorch(num_channels, by_frames):
    torch.manual_seed(0)
    x = torch.randn(1, 300, num_channels).bfloat16().mT if by_frames else torch.randn(1, num_channels, 300).bfloat16()
    before, expected = x.clone(), F.elu(x)
    assert torch.equal(elu(x), expected) and torch.equal(x, before)
    assert elu_(x) is x and torch.equal(x, expected)


@pytest.mark.parametrize("num_channels", [1, 5, 16, 64])
@pytest.mark.parametrize("by_frames", [False, True])
def test_elu_is_that_of_pytorch(num_channels, by_frames):
    torch.manual_seed(0)
    x = torch.randn(1, 300, num_channels).mT if by_frames else torch.randn(1, num_channels, 300)
    before, expected = x.clone(), F.elu(x)
    torch.testing.assert_close(elu(x), expected, rtol=1.2e-7, atol=1e-40)
    assert torch.equal(x, before)
    assert elu_(x) is x
    torch.testing.assert_close(x, expected, rtol=1.2e-7, atol=1e-40)


@pytest.mark.parametrize("by_frames", [False, True])
def test_snake_is_rounded_operation_by_operation(by_frames):
    torch.manual_seed(0)
    x = torch.randn(1, 300, 64).mT if by_frames else torch.randn(1, 64, 300)
    alpha, inverse = torch.rand(1, 64, 1) + 0.1, torch.rand(1, 64, 1)
    wave = (x * alpha).sin()
    assert torch.equal(ExactSnake(alpha, inverse)(x), wave * wave * inverse + x)


def test_an_activation_with_other_bits_is_refused(kernel, monkeypatch):
    monkeypatch.setattr(F, "elu", lambda x: torch.expm1(x.double()).float().nextafter(torch.tensor(9.0)))
    assert not has_exact_elu.__wrapped__(kernel)
    monkeypatch.setattr(F, "elu", torch.expm1)
    assert not has_exact_elu_bf16.__wrapped__(kernel)
    monkeypatch.setattr(ExactSnake, "by_torch", lambda self, x: torch.addcmul(x, x, x))
    assert not has_exact_snake.__wrapped__(kernel)
