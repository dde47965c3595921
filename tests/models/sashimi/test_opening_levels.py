"""How loud a clip began: its definition one sample at a time, the same in pieces, and not changed by what follows."""

import math

import torch
from torch import Tensor

from solfa.codecs.families.linear import LinearOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.generate.waveform_model import build_sashimi
from solfa.models.sashimi.config import SashimiModelConfig
from solfa.models.sashimi.network import Sashimi, previous_classes
from solfa.models.sashimi.opening_levels import DECIBELS, UNIT, Opening

CODEC = WaveformCodec(LinearOptions(bits=12, sample_rate=8000))
P, DIM = 6, 4


def make_model(**changes: object) -> Sashimi:
    torch.manual_seed(0)
    sizes = {"dim": DIM, "n_layers": 1, "d_state": 4, "pool": (2, 3), "dt_min": 0.05, "dt_max": 0.5}
    head = {"output_head": "dml", "n_mixtures": 3, "prediction_order": 4, "opening_samples": P}
    model, _ = build_sashimi(SashimiModelConfig.model_validate({**sizes, **head, **changes}), CODEC)
    assert model.linear_path is not None
    model.linear_path.fit([sound(1, 3000, 0)[0]], model.projection, 3)
    return model


def sound(batch: int, num_samples: int, seed: int) -> Tensor:
    drawn = torch.randn(batch, num_samples, generator=torch.Generator().manual_seed(seed))
    return 0.3 * torch.sin(0.5 * drawn.cumsum(1))


def inputs_of(audio: Tensor) -> Tensor:
    classes = CODEC.grid.to_classes(audio)
    return previous_classes(classes, torch.full((len(audio),), CODEC.grid.num_classes))


def cells_slowly(values: list[float | None]) -> list[int]:
    """Find the cell at each input with Python's integers; None is the start of a clip."""
    energy, count, cells = 0, 0, []
    for value in values:
        if value is not None and count < P:
            energy, count = energy + round(max(-1.0, min(1.0, value)) * UNIT) ** 2, count + 1
        if count == 0:
            cells.append(len(DECIBELS) + 1)
        else:
            level = 10 * math.log10(energy / count / UNIT**2) if energy else -math.inf
            cells.append(sum(level >= border for border in DECIBELS))
    return cells


@torch.no_grad()
def test_it_is_its_definition() -> None:
    opening = Opening(P, DIM)
    values = torch.tensor([[0.0, 0.0, 1e-5, 0.3, -0.5, 2.0, 0.01, 0.9]], dtype=torch.float64)
    others = values.flip(1) / 7
    is_sample = torch.tensor([[False] + 7 * [True]])
    embedded, heard = opening.read(values, others, is_sample, torch.zeros(1, 3, dtype=torch.int64))
    spoken = [[None, *row[1:]] for row in (values[0].tolist(), others[0].tolist())]
    cells = [cells_slowly(row) for row in spoken]
    assert all(len(set(row)) > 4 for row in cells)
    expected = opening.amplitudes.weight[cells[0]] + opening.residuals.weight[cells[1]]
    assert torch.equal(embedded[0], expected)
    assert heard[0, 2] == P


@torch.no_grad()
def test_pieces_and_steps_hear_the_same() -> None:
    model, inputs = make_model(), inputs_of(sound(2, 30, 1))
    path = model.linear_path
    assert path is not None
    nothing = torch.zeros(2, 3, dtype=torch.int64)
    whole = path.read(inputs, path.silence(2), nothing)
    for cut in (1, 3, P, P + 1, 20):
        first = path.read(inputs[:, :cut], path.silence(2), nothing)
        second = path.read(inputs[:, cut:], first.windows[:, -1], first.opening)
        assert torch.equal(torch.cat([first.embedded, second.embedded], dim=1), whole.embedded)
        assert torch.equal(second.opening, whole.opening)


@torch.no_grad()
def test_what_follows_the_first_samples_changes_nothing() -> None:
    model = make_model()
    path = model.linear_path
    assert path is not None
    quiet = 0.01 * sound(1, 40, 1)
    louder = torch.cat([quiet[:, :P], 50 * quiet[:, P:]], dim=1)
    found = [model.forward_with_state(inputs_of(audio))[1].opening for audio in (quiet, louder, 50 * quiet)]
    assert torch.equal(found[0], found[1]) and int(found[2][0, 0]) > 100 * int(found[0][0, 0])


def test_without_it_the_network_is_that_of_before() -> None:
    with_it, without = make_model(), make_model(opening_samples=0)
    more = {name for name in with_it.state_dict() if "opening" in name}
    assert more == {"linear_path.opening.amplitudes.weight", "linear_path.opening.residuals.weight"}
    assert without.state_dict().keys() == with_it.state_dict().keys() - more


def test_rows_start_as_a_line_over_decibels() -> None:
    for rows in (Opening(P, DIM).amplitudes, Opening(P, DIM).residuals):
        steps = rows.weight.detach()[:-1].diff(dim=0)
        assert torch.allclose(steps, steps[:1].expand_as(steps), atol=1e-6) and steps.abs().min() > 0
