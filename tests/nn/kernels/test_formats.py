"""Weights in fewer bits: how far they move, and that what is packed is what was rounded, in the order of panels.h."""

import pytest
import torch
from torch import Tensor

from solfa.nn.kernels.formats import Float16Format, Float32Format, Int4Format, Int8Format, to_half

PANEL = 32


def unpack_half(packed: Tensor) -> Tensor:
    return packed.view(torch.float16).float()


def read_back(kind: object, packed: Tensor, scales: Tensor, num_out: int, num_in: int) -> Tensor:
    """Find each weight in the bytes, one at a time, as panels.h describes them."""
    weight = torch.zeros(num_out, num_in)
    for o in range(num_out):
        panel, lane = divmod(o, PANEL)
        for i in range(num_in):
            place = panel * PANEL * num_in + i * PANEL + lane
            if isinstance(kind, Float32Format):
                weight[o, i] = packed.view(torch.float32)[place]
            elif isinstance(kind, Float16Format):
                weight[o, i] = packed.view(torch.float16)[place]
            elif isinstance(kind, Int8Format):
                place = panel * PANEL * num_in + i // 2 * 2 * PANEL + 2 * lane + i % 2
                weight[o, i] = packed.view(torch.int8)[place] * scales[o]
            else:
                group_bytes = 2 * PANEL + 16 * PANEL
                group = packed[(panel * (num_in // 32) + i // 32) * group_bytes :][:group_bytes]
                byte = int(group[2 * PANEL + (i % 32 // 8 * PANEL + lane) * 4 + i % 4])
                integer = (byte >> 4 if i % 8 >= 4 else byte & 15) - 8
                weight[o, i] = integer * unpack_half(group[: 2 * PANEL])[lane]
    return weight


@pytest.mark.parametrize("kind", [Float32Format(), Float16Format(), Int8Format(), Int4Format()], ids=lambda k: k.bits)
def test_what_is_packed_is_what_was_rounded(kind: Float32Format) -> None:
    weight = torch.randn(64, 64)
    packed = kind.pack(weight, PANEL)
    assert packed.weights.numel() == weight.numel() * kind.bits / 8
    assert torch.equal(read_back(kind, packed.weights, packed.scales, 64, 64), kind.rounded(weight))


def test_no_weight_moves_by_more_than_its_format_allows() -> None:
    weight = torch.randn(64, 128) * torch.logspace(-3, 3, 64)[:, None]
    weight[7] = 0
    moved = {kind.bits: (kind.rounded(weight) - weight).abs() for kind in (Float16Format(), Int8Format(), Int4Format())}
    # Half a unit of the last of 11 bits; below the smallest normal number, 2^-14, units are all of 2^-24.
    assert (moved[16] <= (weight.abs() * 2**-11).clamp(min=2**-25)).all()
    levels = weight.abs().amax(dim=1, keepdim=True) / 127
    assert (moved[8] <= levels / 2 * (1 + 1e-5)).all()
    # -8 to 7 times a scale of a group's largest / 8: what has the other sign may be cut by a whole level. A smaller
    # scale is taken only if the squares of a group's errors sum to less, so no error exceeds what that allows.
    level = weight.unflatten(1, (-1, 32)).abs().amax(dim=2, keepdim=True) / 8
    errors = moved[4.5].unflatten(1, (-1, 32)).square().sum(dim=2, keepdim=True)
    assert (errors <= 32 * (level * 1.001).square() + 1e-20).all()
    assert all(change[7].max() == 0 for change in moved.values())


def test_a_group_of_int4_has_a_smaller_error_than_with_its_largest_weight_as_scale() -> None:
    weight = torch.randn(256, 128)
    groups = weight.unflatten(1, (-1, 32))
    scales = groups.abs().amax(dim=2, keepdim=True) / 7
    plain = ((groups / scales).round() * scales - groups).square().mean()
    assert (Int4Format().rounded(weight) - weight).square().mean() < 0.9 * plain


def test_what_is_too_large_for_float16_becomes_the_largest() -> None:
    assert to_half(torch.tensor([1e6, -1e6, 65504.0])).tolist() == [65504.0, -65504.0, 65504.0]
