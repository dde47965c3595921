"""Free running in training: what is drawn, what is compared, and that descending it brings levels back."""

import math

import pytest
import torch
from torch import Tensor

from solfa.codecs.families.linear import LinearOptions
from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.generate.waveform_model import build_sashimi
from solfa.models.sashimi.config import SashimiModelConfig
from solfa.models.sashimi.heads import DmlHead
from solfa.models.sashimi.network import Sashimi, previous_classes
from solfa.models.sashimi.own_draws import FRAME, POWER_FRAME, continue_freely, expected_levels, level_errors

CODEC = WaveformCodec(LinearOptions(bits=12, sample_rate=8000))
M, PROMPT = 3, 40


def make_model(codec: WaveformCodec = CODEC) -> tuple[Sashimi, DmlHead]:
    torch.manual_seed(0)
    sizes = {"dim": 8, "n_layers": 1, "d_state": 8, "pool": (2, 2)}
    config = {**sizes, "output_head": "dml", "n_mixtures": M, "prediction_order": 4}
    model, head = build_sashimi(SashimiModelConfig.model_validate(config), codec)
    assert isinstance(head, DmlHead) and model.linear_path is not None
    model.linear_path.fit([sound(1, 4000)[0]], model.projection, M)
    return model, head


def sound(batch: int, num_samples: int) -> Tensor:
    drawn = torch.randn(batch, num_samples, generator=torch.Generator().manual_seed(1))
    return 0.1 * torch.sin(0.3 * drawn.cumsum(1))


def recordings(batch: int, num_samples: int) -> Tensor:
    return CODEC.grid.to_classes(sound(batch, num_samples))


def test_the_beginning_is_the_recording_and_each_seed_draws_its_own() -> None:
    model, head = make_model()
    classes = recordings(1, 200).repeat(3, 1)
    drawn = continue_freely(model.train(), head, classes, PROMPT, [5, 6, 5])
    assert torch.equal(drawn[:, :PROMPT], classes[:, :PROMPT])
    assert torch.equal(drawn[0], drawn[2]) and not torch.equal(drawn[0], drawn[1])
    assert torch.equal(continue_freely(model, head, classes[:1], PROMPT, [6])[0], drawn[1])
    assert model.training and not drawn.is_inference()


@pytest.mark.parametrize("options", [LinearOptions(bits=12), MulawOptions(bits=8)])
@torch.no_grad()
def test_levels_are_logarithms_of_the_spread_that_is_expected(options: LinearOptions | MulawOptions) -> None:
    _, head = make_model(WaveformCodec(options))
    outputs = torch.zeros(2, 2 * FRAME + 5, 3 * M)
    outputs[..., -M:] = math.log(0.02)
    outputs[1, :FRAME, -M:] = math.log(0.2)
    outputs[1, FRAME : FRAME + FRAME // 2, -M:] = math.log(0.04)
    found = expected_levels(head, outputs).spread
    # A logistic distribution has a standard deviation of pi / sqrt(3) scales; with half a frame twice as wide, the mean
    # of the squares is 2.5 times as large.
    spread = math.log(math.pi / math.sqrt(3))
    expected = torch.tensor([[0.02, 0.02], [0.2, 0.02 * math.sqrt(2.5)]]).log() + spread
    assert torch.allclose(found, expected, atol=2e-3)


def test_errors_are_mean_squares_of_differences_over_whole_frames() -> None:
    _, head = make_model()
    own, real = torch.zeros(2, 3 * FRAME, 3 * M), torch.zeros(2, 3 * FRAME, 3 * M)
    own[..., -M:], real[..., -M:] = math.log(0.04), math.log(0.02)
    own[:, FRAME:, -M:] = math.log(0.01)
    own[1, 2 * FRAME :, -M:] = math.log(0.5)
    mask = torch.ones(2, 3 * FRAME, dtype=torch.bool)
    mask[1, 3 * FRAME - 1] = False
    assert float(level_errors(head, own, real, torch.ones_like(mask)).spread[1]) > 1
    own[0, :FRAME, -M:] = math.log(0.02)
    found = level_errors(head, own, real, mask).spread
    assert found.tolist() == pytest.approx([math.log(2) ** 2 * 2 / 3, math.log(2) ** 2], rel=1e-2)
    mask[1] = False
    assert all(errors[1] == 0 for errors in level_errors(head, own, real, mask))


@torch.no_grad()
def test_powers_are_those_of_the_expected_amplitudes_and_their_spread() -> None:
    _, head = make_model()
    own = torch.zeros(1, 2 * POWER_FRAME + 5, 3 * M)
    own[..., -M:] = math.log(0.02)
    own[:, :POWER_FRAME, M : 2 * M] = 0.3
    variance = 0.02**2 * math.pi**2 / 3
    expected = [math.log(0.3**2 + variance) / 2, math.log(variance) / 2]
    assert expected_levels(head, own).power[0].tolist() == pytest.approx(expected, abs=1e-3)
    real, mask = own.clone(), torch.ones(own.shape[:2], dtype=torch.bool)
    real[:, :POWER_FRAME, M : 2 * M] = 0.15
    errors = level_errors(head, own, real, mask)
    assert float(errors.power) == pytest.approx((expected[0] - math.log(0.15**2 + variance) / 2) ** 2 / 2, rel=1e-2)
    assert float(errors.spread) < 1e-6


def test_what_is_shorter_than_a_frame_of_power_is_one_frame() -> None:
    _, head = make_model()
    assert expected_levels(head, torch.zeros(2, 3 * FRAME, 3 * M)).power.shape == (2, 1)


def test_recordings_are_taken_as_given() -> None:
    _, head = make_model()
    own, real = torch.randn(2, 1, FRAME, 3 * M).unbind(0)
    own, real = own.requires_grad_(), real.requires_grad_()
    torch.stack(level_errors(head, own, real, torch.ones(1, FRAME, dtype=torch.bool))).sum().backward()  # type: ignore[no-untyped-call]
    assert real.grad is None and own.grad is not None and own.grad.abs().sum() > 0


def test_descending_it_brings_the_level_of_own_draws_to_that_of_the_recordings() -> None:
    model, head = make_model()
    classes = recordings(4, PROMPT + 2 * FRAME)
    mask = torch.ones(4, 2 * FRAME, dtype=torch.bool)
    with torch.no_grad():
        real = model(previous_classes(classes, model.start(4)))[:, PROMPT:]
        model.projection.bias[-M:] += 0.7  # now everything is expected to be twice as large
    optimizer = torch.optim.Adam([model.projection.bias], lr=0.1)
    found = []
    for update in range(15):
        own = continue_freely(model, head, classes, PROMPT, [4 * update + clip for clip in range(4)])
        penalty = level_errors(head, model(previous_classes(own, model.start(4)))[:, PROMPT:], real, mask).spread.mean()
        optimizer.zero_grad()
        penalty.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        found.append(float(penalty.detach()))
    assert found[0] > 0.3 and max(found[-3:]) < 0.2 * found[0]
