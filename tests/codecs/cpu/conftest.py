"""Small models whose clips are nevertheless cut into many pieces."""

import pytest
import torch

from solfa.codecs.cpu import convolution


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(convolution, "TILE_BYTES", 1 << 12)


@pytest.fixture(autouse=True)
def one_thread():
    # Thousands of tiny parallel regions: on a busy machine the threads would spend minutes waiting for each other.
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)


@pytest.fixture
def tone():
    """Make clips of decaying, drifting tones `[B, C, N]`."""

    def make(num_clips: int, num_samples: int, num_channels: int = 1, dtype: torch.dtype = torch.float32):
        generator = torch.Generator().manual_seed(num_samples)
        times = torch.arange(num_samples, dtype=torch.float64) / 1000
        pitches = 20 + 200 * torch.rand(num_clips, num_channels, 1, generator=generator, dtype=torch.float64)
        noise = torch.randn(num_clips, num_channels, num_samples, generator=generator, dtype=torch.float64)
        return ((torch.sin(6.28 * pitches * times) * torch.exp(-times / 3) + 0.1 * noise) * 0.5).to(dtype)

    return make
