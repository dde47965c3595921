"""The linear path: its definition one sample at a time, the same in pieces and steps, causal, kept with the weights."""

import math

import pytest
import torch
from torch import Tensor, nn

from solfa.codecs.families.linear import LinearOptions
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.generate.waveform_model import build_sashimi
from solfa.models.sashimi.config import SashimiModelConfig
from solfa.models.sashimi.heads import DmlHead
from solfa.models.sashimi.linear_path import COARSE, CellEmbedding, LinearPath
from solfa.models.sashimi.network import Sashimi, previous_classes

CODECS = {
    "mulaw": WaveformCodec(MulawOptions(bits=8, sample_rate=8000)),
    "linear": WaveformCodec(LinearOptions(bits=12, sample_rate=8000)),
}
every_grid = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
K, M = 4, 3


def settings(**changes: object) -> SashimiModelConfig:
    sizes = {"dim": 4, "n_layers": 1, "d_state": 4, "pool": (2, 3), "dt_min": 0.05, "dt_max": 0.5}
    head = {"output_head": "dml", "n_mixtures": M, "prediction_order": K}
    return SashimiModelConfig.model_validate({**sizes, **head, **changes})


def sound(batch: int, num_samples: int, seed: int = 0) -> Tensor:
    drawn = torch.randn(batch, num_samples, generator=torch.Generator().manual_seed(seed))
    return 0.5 * torch.sin(0.5 * drawn.cumsum(1))


def make_model(codec: WaveformCodec) -> Sashimi:
    torch.manual_seed(0)
    model, _ = build_sashimi(settings(), codec)
    assert model.linear_path is not None
    model.linear_path.fit([codec.grid.to_audio(codec.grid.to_classes(sound(1, 3000)[0]))], model.projection, M)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.double()


def make_inputs(codec: WaveformCodec, batch: int, num_samples: int) -> Tensor:
    classes = codec.grid.to_classes(sound(batch, num_samples, seed=1))
    return previous_classes(classes, torch.full((batch,), codec.grid.num_classes))


def cells_slowly(model: Sashimi, inputs: list[int], borders: list[float]) -> tuple[list[int], list[float]]:
    """Find the cell of each residual and the prediction after each input, with Python's float64."""
    path = model.linear_path
    assert path is not None
    amplitudes, coefficients = path.amplitudes.tolist(), path.coefficients.tolist()
    past, prediction, cells, predictions = [0.0] * K, 0.0, [], []
    for number in inputs:
        residual = amplitudes[number] - prediction
        start = number == path.grid.num_classes
        cells.append(256 if start else sum(8 * residual >= border for border in borders))
        past = [amplitudes[number], *past[:-1]]
        prediction = 0.0
        for coefficient, amplitude in zip(coefficients, past, strict=True):
            prediction = prediction + coefficient * amplitude
        predictions.append(prediction)
    return cells, predictions


@every_grid
@torch.no_grad()
def test_it_is_its_definition(codec: WaveformCodec) -> None:
    model, inputs = make_model(codec), make_inputs(codec, 1, 40)
    path = model.linear_path
    assert path is not None
    heard = path.read(inputs, path.silence(1), torch.zeros(1, 3, dtype=torch.int64))
    cells, predictions = cells_slowly(model, inputs[0].tolist(), COARSE.borders().tolist())
    assert len(set(cells)) > 10
    # Equal, not nearly so: another cell would be another row.
    assert heard.predictions[0].tolist() == predictions
    assert torch.equal(heard.embedded[0], path.residuals.weight[torch.tensor(cells)])

    raw, normed = torch.randn(1, 40, 3 * M).double(), torch.randn(1, 40, 4).double()
    placed = path.place(raw, normed, heard)
    for at in range(K, 40):
        past = [float(path.amplitudes[inputs[0, at - back]]) for back in range(K)]
        turns = path.turns(normed[0, at]).tolist()
        white = [sum(float(path.whitening[row, back]) * past[back] for back in range(K)) for row in range(K)]
        turned = float(path.error) * sum(turn * number for turn, number in zip(turns, white, strict=True))
        centre = max(-1.0, min(1.0, predictions[at] + turned))
        logits, offsets, log_scales = (part.tolist() for part in raw[0, at].chunk(3))
        log_scales = [min(0.0, value) for value in log_scales]
        means = [centre + math.exp(log) * offset for log, offset in zip(log_scales, offsets, strict=True)]
        assert placed[0, at].tolist() == pytest.approx([*logits, *means, *log_scales], abs=1e-12)


@every_grid
@torch.no_grad()
def test_steps_and_pieces_equal_the_forward_at_every_phase_of_the_pools(codec: WaveformCodec) -> None:
    model, inputs = make_model(codec), make_inputs(codec, 2, 21)
    outputs, last = model.forward_with_state(inputs)
    state, one_by_one = model.initial_state(2), []
    for column in inputs.unbind(1):
        output, state = model.step(column, state)
        one_by_one.append(output)
    assert (torch.stack(one_by_one, 1) - outputs).abs().max() < 1e-12
    assert torch.equal(state.past, last.past) and state.past.shape == (2, K)
    assert state.past.untyped_storage().nbytes() == state.past.numel() * state.past.itemsize
    for cut in range(1, 14):
        first, state = model.forward_with_state(inputs[:, :cut])
        second = model(inputs[:, cut:], state)
        assert (torch.cat([first, second], dim=1) - outputs).abs().max() < 1e-12


@torch.no_grad()
def test_a_class_changes_its_own_output_and_later_ones_only() -> None:
    codec, steps = CODECS["mulaw"], 20
    model, inputs = make_model(codec), make_inputs(codec, 1, steps).repeat(steps, 1)
    changed = inputs.clone()
    changed.diagonal().copy_((changed.diagonal() + 9) % 256)  # row t differs at t
    difference = (model(changed) - model(inputs)).abs().amax(-1)
    past = torch.ones(steps, steps).tril(-1).bool()
    assert difference[past].max() < 1e-13
    assert difference[~past].min() > 1e-9


def test_without_an_order_it_is_the_network_of_before() -> None:
    codec = CODECS["mulaw"]
    torch.manual_seed(5)
    model, head = build_sashimi(settings(prediction_order=0), codec)
    torch.manual_seed(5)
    plain = Sashimi(settings().sized(256), 3 * M)
    head.initialize(plain.projection)
    assert model.linear_path is None and model.state_dict().keys() == plain.state_dict().keys()
    inputs = make_inputs(codec, 1, 30)
    assert torch.equal(model(inputs), plain(inputs))


@every_grid
@torch.no_grad()
def test_what_was_fitted_is_stored_with_the_weights(codec: WaveformCodec) -> None:
    model, inputs = make_model(codec).float(), make_inputs(codec, 1, 30)
    other, _ = build_sashimi(settings(), codec)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(inputs), model(inputs))
    stored = {name for name in model.state_dict() if name.startswith("linear_path.")}
    assert {f"linear_path.{name}" for name in ("coefficients", "whitening", "error")} < stored
    assert not any(tensor.dtype == torch.float64 for tensor in model.state_dict().values())


def test_a_new_network_predicts_what_the_fixed_predictor_does_and_as_widely_as_it_errs() -> None:
    codec = CODECS["linear"]
    model, head = build_sashimi(settings(), codec)
    assert isinstance(head, DmlHead)
    audio = codec.grid.to_audio(codec.grid.to_classes(sound(1, 3000)))
    path = model.linear_path
    assert path is not None
    path.fit(audio, model.projection, M)
    nn.init.zeros_(model.projection.weight)
    inputs = codec.grid.to_classes(audio)
    _, means, log_scales = head.mixture(model(inputs))
    expected = path.read(inputs, path.silence(1), torch.zeros(1, 3, dtype=torch.int64)).predictions.clamp(-1, 1).float()
    assert torch.equal(means, expected[..., None].expand_as(means))
    assert log_scales[0, 0].exp().min() < float(path.error) < log_scales[0, 0].exp().max()


def test_the_rows_of_residuals_say_where_cells_are_and_how_far_from_the_middle() -> None:
    torch.manual_seed(0)
    path = LinearPath(CODECS["linear"].grid, K, 64)
    rows = path.residuals.weight.detach()[:-1]
    places = torch.linspace(-1, 1, len(rows))
    known = torch.stack([torch.ones_like(places), places, places.abs()], dim=1)
    fitted = known @ torch.linalg.lstsq(known, rows).solution
    # Two directions of variance one, and the rows' own noise of 0.3 squared.
    assert float((rows - fitted).var() / rows.var(dim=0).mean()) < 0.1


def test_no_two_classes_of_a_finer_grid_are_read_as_the_same() -> None:
    reading = CellEmbedding(CODECS["linear"].grid, 4)
    read = torch.stack([reading.cells.double(), reading.places.double()], dim=1)
    assert len(torch.unique(read, dim=0)) == 4096 + 1
    assert float(reading.places.abs().max()) <= 1 + 1e-6
    assert isinstance(make_model(CODECS["linear"]).embedding, CellEmbedding)
    assert isinstance(make_model(CODECS["mulaw"]).embedding, nn.Embedding)
