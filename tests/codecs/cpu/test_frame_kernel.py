import pytest
import torch
from torch.nn import functional as F

from solfa.codecs.cpu.frame_kernel import FrameKernel, Order, load_frame_kernel, pack


@pytest.fixture
def kernel() -> FrameKernel:
    loaded = load_frame_kernel()
    if loaded is None:
        pytest.skip("there is no C compiler here")
    return loaded


def frames(*shape: int) -> torch.Tensor:
    """Draw `[1, C, n]` with the channels of a frame next to each other."""
    _, num_channels, num_frames = shape
    return torch.randn(1, num_frames, num_channels).mT


ORDERS = [Order(16, 3), Order(16, 12), Order(8, 3), Order(16, 3 * 4, starts_with_bias=True), Order(64, 3), Order(1, 5)]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (5, 3)])
@pytest.mark.parametrize("width_out", [16, 48, 64, 128])
def test_every_order_is_the_convolution(kernel, order, stride, dilation, width_out):
    torch.manual_seed(0)
    weight, bias = torch.randn(width_out, 64, 3) / 14, torch.randn(width_out)
    packed = pack(kernel, weight, bias, stride, dilation, order)
    for num_frames in (1, 5, 12, 13, 50, 131):
        x = frames(1, 64, (num_frames - 1) * stride + 2 * dilation + 1)
        exact = F.conv1d(x.double(), weight.double(), bias.double(), stride, 0, dilation)
        torch.testing.assert_close(packed(x, num_frames).double(), exact, rtol=0, atol=1e-5)
        added = frames(1, width_out, num_frames)
        torch.testing.assert_close(packed(x, num_frames, added).double(), exact + added, rtol=0, atol=1e-5)


@pytest.mark.parametrize("width_in", [1, 2, 3, 48])
def test_a_block_may_have_any_width(kernel, width_in):
    torch.manual_seed(0)
    weight, x = torch.randn(32, width_in, 7), frames(1, width_in, 106)
    packed = pack(kernel, weight, None, 1, 1, Order(width_in, 7))
    exact = F.conv1d(x.double(), weight.double())
    torch.testing.assert_close(packed(x, 100).double(), exact, rtol=0, atol=1e-4)


@pytest.mark.parametrize("taps", [1, 7])
def test_a_frame_does_not_depend_on_the_frames_computed_with_it(kernel, taps):
    torch.manual_seed(0)
    # So many inputs that neither they nor a panel's weights are computed at once.
    weight, x = torch.randn(128, 512, taps), frames(1, 512, 300 + taps - 1)
    packed = pack(kernel, weight, torch.randn(128), 1, 1, Order(16, taps))
    together = packed(x, 300)
    alone = [packed(x[..., i : i + taps], 1) for i in range(300)]
    assert torch.equal(together, torch.cat(alone, dim=2))


def sum_slowly(products: torch.Tensor, bias: float, order: Order) -> float:
    """Add float32 numbers `[in, taps]` one after the other, as `Order` says."""
    width_in, taps = products.shape
    sequence = [
        products[channel, tap]
        for block in range(0, width_in, order.block)
        for tap in range(taps)
        for channel in range(block, block + order.block)
    ]
    length = order.chain * order.block
    zero, total = torch.zeros(()), torch.tensor(bias)
    for begin in range(0, len(sequence), length):
        chain = total if order.starts_with_bias and begin == 0 else zero
        for product in sequence[begin : begin + length]:
            chain = chain + product
        total = chain if order.starts_with_bias else chain + total
    return total.item()


@pytest.mark.parametrize("order", [Order(16, 3), Order(16, 6), Order(8, 3), Order(16, 12, True), Order(32, 1)], ids=str)
def test_sums_are_rounded_in_the_given_order(kernel, order):
    torch.manual_seed(0)
    # The inputs are ones, so products are not rounded, and the weights so uneven that every order has another sum.
    weight = torch.randn(16, 64, 3) * torch.empty(16, 64, 3).uniform_(-8, 8).exp2()
    bias = torch.randn(16)
    made = pack(kernel, weight, bias, 1, 1, order)(torch.ones(1, 3, 64).mT, 1)[0, :, 0]
    expected = [sum_slowly(*parts, order) for parts in zip(weight, bias.tolist(), strict=True)]
    assert made.tolist() == expected
    others = [sum_slowly(*parts, Order(1, 192)) for parts in zip(weight, bias.tolist(), strict=True)]
    assert expected != others


def test_without_a_compiler_there_is_no_kernel(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert load_frame_kernel.__wrapped__() is None


@pytest.mark.parametrize("options", ["-mno-avx512f", "-mno-avx2 -mno-fma -mno-avx512f"])
def test_narrower_vectors_compute_the_same_convolution(options, monkeypatch, kernel):
    monkeypatch.setenv("CC", f"cc {options}")
    narrow = load_frame_kernel.__wrapped__()
    if narrow is None:
        pytest.skip("the compiler does not know these options")
    torch.manual_seed(0)
    weight, bias, x = torch.randn(48, 64, 3), torch.randn(48), frames(1, 64, 52)
    made = [pack(one, weight, bias, 1, 1, Order(16, 3))(x, 50) for one in (kernel, narrow)]
    torch.testing.assert_close(made[0], made[1], rtol=0, atol=1e-4)
