import pytest
import torch
from torch import nn

from solfa.codecs.cpu.lstm import MIN_CLIPS, residual_lstm


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("num_clips", [1, MIN_CLIPS - 1, MIN_CLIPS, MIN_CLIPS + 3])
@torch.no_grad()
def test_the_sum_of_lstm_and_input_is_that_of_the_plain_module(num_layers, num_clips):
    torch.manual_seed(0)
    lstm = nn.LSTM(24, 24, num_layers, dtype=torch.float64)
    x = torch.randn(num_clips, 24, 30, dtype=torch.float64)
    frames = x.permute(2, 0, 1)
    expected = (lstm(frames)[0] + frames).permute(1, 2, 0)
    torch.testing.assert_close(residual_lstm(lstm)(x), expected, rtol=1e-12, atol=1e-13)


@torch.no_grad()
def test_many_clips_differ_from_single_ones_by_rounding_at_most():
    torch.manual_seed(0)
    run = residual_lstm(nn.LSTM(64, 64, 2))
    x = torch.randn(MIN_CLIPS + 1, 64, 50)
    torch.testing.assert_close(run(x), torch.cat([run(clip) for clip in torch.split(x, 1)]), rtol=1e-4, atol=1e-5)
