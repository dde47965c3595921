"""Linear layers whose products are computed in C, at the speed of reading their weights.

A generation step multiplies every weight by one or two rows, so it takes as long as reading the weights. The kernels of
torch read them at a third to two thirds of the speed of memory; those of `solfa.nn.kernels` at nine tenths. They also
give a row the same numbers in any batch and with any number of threads.
"""

import ctypes
from math import prod

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from solfa.nn.kernels.formats import Int4Format, Int8Format, WeightFormat
from solfa.nn.kernels.library import NoKernelError
from solfa.nn.kernels.memory_block import BlockBuilder
from solfa.nn.kernels.structures import DecoderKernel, Linear, load_decoder, padded
from solfa.nn.linears.packed import ForGeneration, M, replace_linears

HEADS = "heads"
"""The name of the layer that makes the logits."""


class CompiledLinear(ForGeneration):
    """A linear layer with weights of some format and results in float32."""

    def __init__(self, linear: nn.Linear, kind: WeightFormat, kernel: DecoderKernel, shelf: BlockBuilder) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        self.bias = None if linear.bias is None else linear.bias.detach().float()
        self._format, self._kernel = kind.code, kernel
        packed = kind.pack(_filled(linear), kernel.panel)
        self._weights, self._scales = shelf.put(packed.weights), packed.scales

    @property
    def _width_in(self) -> int:
        return padded(self.in_features)

    @property
    def _width_out(self) -> int:
        return padded(self.out_features)

    def structure(self) -> Linear:
        """Describe the matrix to the kernel; this is good as long as the layer exists."""
        weights, scales = self._weights.data_ptr(), self._scales.data_ptr()
        return Linear(self._format, self._width_in, self._width_out, weights, scales)

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        kernel, matrix = self._kernel, ctypes.byref(self.structure())
        rows = x.reshape(-1, self.in_features).float()
        if self._width_in != self.in_features:
            rows = F.pad(rows, (0, self._width_in - self.in_features))
        rows = rows.contiguous()
        num_rows = len(rows)
        made = torch.empty(num_rows, self._width_out)
        scratch = torch.empty(kernel.multiply_bytes(matrix, num_rows), dtype=torch.uint8)
        pointers = rows.data_ptr(), made.data_ptr(), num_rows, scratch.data_ptr()
        kernel.multiply(matrix, *pointers, torch.get_num_threads())
        result = made[:, : self.out_features]
        if self.bias is not None:
            result = result + self.bias
        return result.reshape(*x.shape[:-1], self.out_features).to(x.dtype)


def compile_linears(module: M, kind: WeightFormat) -> M:
    """Replace every linear layer inside `module` in place, freeing its old weights one by one."""
    named = {name: child for name, child in module.named_modules() if type(child) is nn.Linear}
    for name, linear in named.items():
        if linear.weight.device.type != "cpu" or linear.weight.dtype != torch.float32:
            found = f"{str(linear.weight.dtype).removeprefix('torch.')} on {linear.weight.device}"
            raise NoKernelError(f"the kernel needs float32 on a CPU, but {name}.weight is {found}")
    kernel = load_decoder()
    formats = {id(linear): format_of(name, kind) for name, linear in named.items()}
    sizes = [prod(map(padded, linear.weight.shape)) * formats[id(linear)].bits / 8 for linear in named.values()]
    shelf = BlockBuilder([int(size) for size in sizes])
    return replace_linears(module, lambda linear: CompiledLinear(linear, formats[id(linear)], kernel, shelf))


def format_of(name: str, kind: WeightFormat) -> WeightFormat:
    """Choose the format of a layer: where others have four bits, heads get eight, as no norm follows their error."""
    return Int8Format() if name == HEADS and isinstance(kind, Int4Format) else kind


def round_linear(linear: nn.Linear, kind: WeightFormat) -> None:
    """Round the weights of a layer in place to those that a format stores."""
    num_out, num_in = linear.weight.shape
    linear.weight.data = kind.rounded(_filled(linear))[:num_out, :num_in].contiguous()


def _filled(linear: nn.Linear) -> Float[Tensor, "O I"]:
    weight = linear.weight.detach()
    return F.pad(weight, (0, padded(weight.shape[1]) - weight.shape[1], 0, padded(weight.shape[0]) - weight.shape[0]))
