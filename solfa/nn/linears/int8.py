"""Linear layers with 8-bit weights, for generation on CPUs: a quarter of the bytes, so up to four times faster.

Row o of a weight is stored as integers q in [-127, 127] with one scale s_o, its largest magnitude / 127, so that no
weight moves by more than s_o / 2. The product is FBGEMM's (through torch), which multiplies integers and so needs
integer inputs, too. Rounded to eight bits, inputs would lose more than weights, so each row x is split into two:

    x = p / 64 (a + b / 128)        p: its largest magnitude;  a, b: integers in [-64, 64], b the rounding error of a

i.e. fourteen bits, whose rounding is negligible next to that of the weights. Both go through one product, which reads
the weights once. Not eight bits each, because sums of two 8-bit products saturate on CPUs without VNNI; sums of two
products with 128 do not. Integer sums are exact and each row has its own scale, so a row's result is the same in any
batch.

A Zen 3 core needs 30 ms for 420 MB of such weights and 4 rows; `torch._weight_int8pack_mm` (inputs in bf16) needs 76
for 2 rows. With many clips at once, the sums take longer than the reading, and `solfa.nn.linears.half` is faster.
"""

import warnings

import torch
from jaxtyping import Float
from torch import Tensor, nn

from solfa.nn.linears.fbgemm import check_fbgemm, packing_with_fbgemm
from solfa.nn.linears.packed import ForGeneration, M, replace_linears

_LEVELS = torch.tensor(64.0)
_FINER = torch.tensor(128.0)
_SMALLEST = torch.tensor(1e-30)
_OPERATOR = "linear_with_input_q_dq_qweight_dq_output_fp32"


class Int8Linear(ForGeneration):
    """A linear layer with 8-bit weights and results in float32."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = None if linear.bias is None else linear.bias.detach().float()
        self._packed = _pack(linear.weight.detach().float())
        self._multiply = getattr(torch.ops.quantized, _OPERATOR)

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        rows = x.reshape(-1, self.in_features).float()
        # Next to a product of 100 us, ten small operations matter: none here uses a Python number, which costs double.
        per_unit = _LEVELS / rows.abs().amax(dim=1, keepdim=True).maximum(_SMALLEST)
        scaled = rows * per_unit
        coarse = scaled.round()
        fine = scaled.sub_(coarse).mul_(_FINER)
        # The operator divides its input by a scale, adds a zero point and rounds to an unsigned integer.
        product: Tensor = self._multiply(torch.cat([coarse, fine]), 1.0, 64, self._packed)
        by_coarse, by_fine = product.chunk(2)
        result = torch.addcdiv(by_coarse, by_fine, _FINER).div_(per_unit)
        if self.bias is not None:
            result += self.bias
        result = result.view(*x.shape[:-1], self.out_features)
        return result if x.dtype == torch.float32 else result.to(x.dtype)


def quantise_linears(module: M) -> M:
    """Replace every linear layer inside `module` in place, freeing its old weights.

    >>> import torch
    >>> from solfa.nn import quantise_linears
    >>> network, x = torch.nn.Sequential(torch.nn.Linear(64, 64)), torch.ones(1, 64)
    >>> exact = network(x).detach()
    >>> bool((quantise_linears(network)(x) - exact).abs().max() < 0.05)
    True
    """
    check_fbgemm(module, "int8", _OPERATOR)
    return replace_linears(module, Int8Linear)


def _pack(weight: Float[Tensor, "O I"]) -> torch.ScriptObject:
    scales = weight.abs().amax(dim=1).clamp(min=1e-30).double() / 127
    zeros = torch.zeros(len(weight), dtype=torch.int64)
    with warnings.catch_warnings(), packing_with_fbgemm():
        # Deprecated since 2.13, with nothing in torch that reads int8 weights as fast on these CPUs.
        warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
        quantised = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        packed: torch.ScriptObject = torch.ops.quantized.linear_prepack(quantised, None)
    return packed
