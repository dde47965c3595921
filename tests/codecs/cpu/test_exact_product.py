import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import EncodecConfig, EncodecModel

from solfa.codecs.cpu import exact_product
from solfa.codecs.cpu.exact_product import ExactLinear, NearestCodewords, with_exact_products, with_nearest_codewords
from solfa.codecs.cpu.frame_kernel import load_frame_kernel
from solfa.codecs.cpu.sum_order import FEWEST_ROWS, LinearShape, find_order, try_orders
from solfa.nn.residual_beam import growth_weights, search_codes


@pytest.fixture
def layer() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(208, 64).requires_grad_(False)


@pytest.fixture
def multiply(layer) -> ExactLinear:
    return ExactLinear(layer.weight, layer.bias)


@pytest.mark.parametrize("num_rows", [0, 1, 3, FEWEST_ROWS - 1, FEWEST_ROWS, 21, 250, 411])
@torch.no_grad()
def test_a_linear_layer_has_the_bits_of_pytorch_for_every_number_of_rows(layer, multiply, num_rows):
    rows = torch.randn(num_rows, 208)
    assert torch.equal(multiply(rows), layer(rows))
    assert torch.equal(multiply(rows[None]), layer(rows[None]))


@torch.no_grad()
def test_rows_may_lie_side_by_side(layer, multiply):
    rows = torch.randn(208, 33).T
    assert torch.equal(multiply(rows), layer(rows))


@pytest.mark.parametrize("width_out, has_bias", [(64, False), (7, True)])
@torch.no_grad()
def test_a_layer_may_have_no_bias_or_a_width_that_fills_no_vector(width_out, has_bias):
    layer = nn.Linear(64, width_out, bias=has_bias)
    rows = torch.randn(40, 64)
    assert torch.equal(ExactLinear(layer.weight, layer.bias)(rows), layer(rows))


def test_what_has_to_learn_or_to_be_more_exact_is_left_to_pytorch(layer, monkeypatch):
    def refuse(*_):
        raise AssertionError("nothing is compiled for this")

    monkeypatch.setattr(exact_product, "find_order", refuse)
    rows = torch.randn(30, 208, requires_grad=True)
    ExactLinear(layer.weight, layer.bias)(rows).sum().backward()
    assert rows.grad is not None
    double = layer.double()
    with torch.no_grad():
        assert ExactLinear(double.weight, double.bias)(rows.double()).dtype == torch.float64


def test_a_product_with_one_other_last_bit_is_refused(monkeypatch):
    kernel = load_frame_kernel()
    shape = LinearShape(64, 64, has_bias=False)
    if kernel is None or find_order(kernel, shape) is None:
        pytest.skip("nothing is compiled here")
    plain = F.linear

    def almost(rows, *others):
        product = plain(rows, *others)
        if len(rows) == shape.lengths[-1] and not rows.is_contiguous():
            product[-1, -1] = torch.nextafter(product[-1, -1], torch.tensor(torch.inf))
        return product

    assert try_orders(kernel, shape) is not None
    monkeypatch.setattr(F, "linear", almost)
    assert try_orders(kernel, shape) is None


@torch.no_grad()
def test_a_network_is_copied_around_the_same_weights():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(48, 16, bias=False), nn.LayerNorm(16))
    network = nn.Sequential(nn.Linear(32, 48), nn.GELU(), inner)
    copy, rows = with_exact_products(network), torch.randn(2, 17, 32)
    assert [type(part) for part in (copy[0], copy[2][0], network[0])] == [ExactLinear, ExactLinear, nn.Linear]
    pairs = zip(network.state_dict().values(), copy.state_dict().values(), strict=True)
    assert all(ours.data_ptr() == theirs.data_ptr() for ours, theirs in pairs)
    assert torch.equal(copy(rows), network(rows))


def tiny_encodec() -> EncodecModel:
    torch.manual_seed(0)
    sizes = {"num_filters": 4, "hidden_size": 16, "codebook_dim": 16, "codebook_size": 64, "num_lstm_layers": 1}
    model = EncodecModel(EncodecConfig(upsampling_ratios=[4, 2], target_bandwidths=[300.0], **sizes)).eval()
    for layer in model.quantizer.layers:
        layer.codebook.embed.normal_()
    return model


@pytest.mark.parametrize("num_frames", [1, 5, 200])
@torch.no_grad()
def test_codes_of_all_codebooks_are_those_of_the_library(num_frames):
    quantizer = tiny_encodec().quantizer
    copy, latents = with_nearest_codewords(quantizer), torch.randn(1, 16, num_frames)
    assert len(quantizer.layers) > 4
    assert torch.equal(copy.encode(latents, 300.0), quantizer.encode(latents, 300.0))
    assert all("quantize" not in vars(layer.codebook) for layer in quantizer.layers)


@torch.no_grad()
def test_of_equal_codewords_the_first_one_is_taken():
    codewords = torch.randn(32, 16)[torch.arange(64) // 2]
    found = NearestCodewords(codewords)(codewords)
    assert torch.equal(found, torch.arange(64) // 2 * 2)


@pytest.mark.parametrize("beam", [2, 4])
@torch.no_grad()
def test_a_beam_with_compiled_growths_finds_the_same_codes(beam):
    torch.manual_seed(0)
    vectors, codebooks = torch.randn(150, 32), torch.randn(3, 64, 32) * torch.tensor([1.0, 0.6, 0.3])[:, None, None]
    growths = [ExactLinear(*growth_weights(codebook)) for codebook in codebooks]
    assert torch.equal(search_codes(vectors, codebooks, beam, growths), search_codes(vectors, codebooks, beam))
