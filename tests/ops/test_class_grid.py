"""Grids: round trips, symmetry, borders, and what a coarser grid sees of a finer one."""

import pytest
import torch
from torch import Tensor

from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.ops.class_grid import Grid, LinearGrid, MulawGrid, cells_on
from solfa.ops.mulaw import mulaw_decode, mulaw_encode

GRIDS = [kind(bits=bits) for kind in (LinearGrid, MulawGrid) for bits in range(2, 17)]
grids = pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.kind}{grid.bits}")


def all_classes(grid: Grid) -> Tensor:
    return torch.arange(grid.num_classes)


@grids
def test_every_class_survives_decoding_and_encoding(grid: Grid) -> None:
    audio = grid.to_audio(all_classes(grid))
    assert audio.dtype == torch.float32 and len(audio) == grid.num_classes == 2**grid.bits
    assert torch.equal(grid.to_classes(audio), all_classes(grid))
    assert (audio.diff() > 0).all()
    assert torch.equal(audio, -audio.flip(0)) and audio[-1] == 1


@grids
def test_classes_stand_at_equal_distances_on_the_line_that_a_head_assumes(grid: Grid) -> None:
    expected = 2 * all_classes(grid).double() / (grid.num_classes - 1) - 1
    found = grid.positions(grid.to_audio(all_classes(grid)))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


@grids
def test_silence_is_the_middle_class_and_is_as_quiet_as_can_be(grid: Grid) -> None:
    middle = grid.num_classes // 2
    assert grid.to_classes(torch.tensor([0.0, -0.0])).tolist() == [middle] * 2
    assert grid.to_audio(torch.tensor(middle)) == grid.to_audio(all_classes(grid)).abs().min()


@grids
def test_classes_change_at_the_borders_and_nowhere_else(grid: Grid) -> None:
    borders = grid.borders()
    assert borders.dtype == torch.float64 and len(borders) == grid.num_classes - 1
    torch.testing.assert_close(borders, -borders.flip(0), rtol=1e-12, atol=1e-17)
    nearly = 1e-12 + 1e-10 * borders.abs()
    assert torch.equal(grid.to_classes(borders - nearly), all_classes(grid)[:-1])
    assert torch.equal(grid.to_classes(borders + nearly), all_classes(grid)[1:])


@grids
def test_a_mirrored_waveform_has_mirrored_classes(grid: Grid) -> None:
    audio = torch.rand(1000, generator=torch.Generator().manual_seed(0)) * 2.4 - 1.2
    assert torch.equal(grid.to_classes(-audio), grid.num_classes - 1 - grid.to_classes(audio))
    assert grid.to_classes(torch.tensor([-7.0, 7.0])).tolist() == [0, grid.num_classes - 1]


def test_linear_classes_are_the_nearest_amplitudes() -> None:
    audio = torch.linspace(-1.2, 1.2, 401)
    grid = LinearGrid(bits=5)
    values = [2 * place / 31 - 1 for place in range(32)]
    # Silence is a tie, if the ramp meets it to the bit, which depends on the processor.
    expected = [
        min(range(32), key=lambda place: (abs(values[place] - x), -place)) for x in audio.clamp(-1, 1).double().tolist()
    ]
    assert grid.to_classes(audio).tolist() == expected
    assert grid.to_audio(torch.arange(32)).tolist() == pytest.approx(values, abs=1e-7)


def test_sixteen_bit_samples_keep_their_distances_but_for_the_two_that_share_silence() -> None:
    samples = torch.arange(-32768, 32768)
    classes = LinearGrid(bits=16).to_classes(samples / 32768)
    assert (classes[samples == 0] == classes[samples == 1]).all()
    assert int((classes.diff() == 0).sum()) == 1 and int((classes.diff() == 1).sum()) == 65534


def test_mulaw_is_the_mulaw_of_the_codec() -> None:
    audio = torch.linspace(-1, 1, 999)
    grid = MulawGrid(bits=10)
    assert torch.equal(grid.to_classes(audio), mulaw_encode(audio, 1024))
    assert torch.equal(grid.to_audio(all_classes(grid)), mulaw_decode(all_classes(grid), 1024))


class WithGrid(Config):
    grid: Grid


@pytest.mark.parametrize(("kind", "expected"), [("linear", LinearGrid(bits=12)), ("mulaw", MulawGrid(bits=12))])
def test_a_grid_is_chosen_by_its_kind(kind: str, expected: Grid) -> None:
    assert parse_config(WithGrid, {"grid": {"kind": kind, "bits": 12}}, "test").grid == expected


@pytest.mark.parametrize("bits", [1, 17])
def test_other_numbers_of_bits_are_refused(bits: int) -> None:
    with pytest.raises(ConfigError, match=rf"grid\.linear\.bits: .*found {bits}"):
        parse_config(WithGrid, {"grid": {"kind": "linear", "bits": bits}}, "test")


@pytest.mark.parametrize("grid", [LinearGrid(bits=12), MulawGrid(bits=16)])
def test_cells_on_a_grid_hold_the_positions_of_their_amplitudes(grid: Grid) -> None:
    coarse = MulawGrid(bits=6)
    cells = cells_on(grid, coarse)
    assert cells.lower[0] == -torch.inf and cells.upper[-1] == torch.inf
    assert torch.equal(cells.lower[1:], cells.upper[:-1])
    audio = torch.rand(2000, generator=torch.Generator().manual_seed(0)) * 2 - 1
    classes, positions = coarse.to_classes(audio), grid.positions(audio)
    assert ((cells.lower[classes] <= positions) & (positions < cells.upper[classes])).all()
