import pytest
import torch
from torch.nn import functional as F

from solfa.codecs.cpu import sum_order
from solfa.codecs.cpu.frame_kernel import FrameKernel, Order, load_frame_kernel, pack
from solfa.codecs.cpu.sum_order import LayerShape, find_order, orders, try_orders
from solfa.errors import ConfigError
from solfa.nn.kernels import machine_memory

SHAPES = {
    "audio": LayerShape(1, 32, 7, 1, 1, 0, True),
    "stereo": LayerShape(2, 64, 7, 1, 1, 3, True),
    "residual": LayerShape(32, 16, 3, 1, 1, 0, True),
    "dilated": LayerShape(64, 64, 7, 1, 9, 27, True),
    "matrix": LayerShape(16, 32, 1, 1, 1, 0, True),
    "wide matrix": LayerShape(512, 64, 1, 1, 1, 0, True),
    "downsampling": LayerShape(64, 128, 10, 5, 1, 0, True),
    "padded downsampling": LayerShape(64, 32, 16, 8, 1, 4, True),
    "no bias": LayerShape(128, 64, 4, 2, 1, 1, False),
}


@pytest.fixture
def kernel() -> FrameKernel:
    loaded = load_frame_kernel()
    if loaded is None:
        pytest.skip("there is no C compiler here")
    return loaded


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_a_compiled_layer_has_the_bits_of_pytorch(kernel, shape):
    order = find_order(kernel, shape)
    if order is None:
        pytest.skip("PyTorch adds up in another order on this processor")
    torch.manual_seed(1)
    weight = torch.randn(shape.width_out, shape.width_in, shape.taps)
    bias = torch.randn(shape.width_out) if shape.has_bias else None
    packed = pack(kernel, weight, bias, shape.stride, shape.dilation, order)
    lengths = (shape.lengths[0], shape.lengths[0] + 3, 28 * shape.stride * 20, 3 * shape.lengths[0] + 7)
    for num_samples in filter(shape.has_usual_kernel, lengths):
        x = torch.randn(1, shape.width_in, num_samples)
        plain = F.conv1d(x, weight, bias, shape.stride, shape.padding, shape.dilation)
        padded = F.pad(x, (shape.padding, shape.padding)).mT.contiguous().mT
        assert torch.equal(packed(padded, plain.shape[-1]), plain)


def test_a_layer_is_left_to_pytorch_if_no_order_gives_its_bits(kernel, monkeypatch):
    shape = SHAPES["residual"]
    monkeypatch.setattr(sum_order, "orders", lambda _: [Order(1, 96), Order(2, 7)])
    assert try_orders(kernel, shape) is None


def test_one_last_bit_of_one_output_is_enough_to_be_refused(kernel, monkeypatch):
    shape = SHAPES["residual"]
    expected = F.conv1d

    def almost(*args):
        out = expected(*args)
        out[0, -1, -1] = torch.nextafter(out[0, -1, -1], torch.tensor(torch.inf))
        return out

    monkeypatch.setattr(F, "conv1d", almost)
    assert try_orders(kernel, shape) is None


def test_outputs_that_fill_no_vector_are_left_to_pytorch(kernel):
    assert find_order(kernel, SHAPES["residual"]._replace(width_out=kernel.lanes + 3)) is None


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_order_tried_divides_the_channels(shape):
    tried = list(orders(shape))
    assert tried and all(shape.width_in % order.block == 0 and order.chain > 0 for order in tried)


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_memory, "cache_folder", lambda: tmp_path)
    find_order.cache_clear()
    yield tmp_path
    find_order.cache_clear()


def test_an_order_is_found_once_per_machine(kernel, memory, monkeypatch):
    shapes = [SHAPES["residual"], SHAPES["matrix"]]
    found = [find_order(kernel, shape) for shape in shapes]
    assert len(list(memory.glob("order-*.json"))) == len(shapes)
    find_order.cache_clear()  # as in another process
    monkeypatch.setattr(sum_order, "try_orders", lambda *_: pytest.fail("it is known"))
    assert [find_order(kernel, shape) for shape in shapes] == found


def test_it_is_remembered_that_there_is_none(kernel, memory, monkeypatch):
    monkeypatch.setattr(sum_order, "try_orders", lambda *_: None)
    assert find_order(kernel, SHAPES["residual"]) is None
    find_order.cache_clear()
    monkeypatch.undo()
    monkeypatch.setattr(machine_memory, "cache_folder", lambda: memory)
    assert find_order(kernel, SHAPES["residual"]) is None


@pytest.mark.parametrize("content", ['{"order": [5, 1, false]}', "{}", '{"orders": 0}', '{"order": {}}'])
def test_a_remembered_order_that_is_none_is_refused(kernel, memory, content):
    find_order(kernel, SHAPES["residual"])
    (path,) = memory.glob("order-*.json")
    path.write_text(content)
    find_order.cache_clear()
    with pytest.raises(ConfigError, match=r"order-.*found.*remove it"):
        find_order(kernel, SHAPES["residual"])
