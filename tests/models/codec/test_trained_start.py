"""A codec from a trained one: a Gaussian where codebooks were starts without loss, with unit variances."""

from itertools import product

import pytest
import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import Fsq, Gaussian, GaussianBottleneck, Rvq, RvqBottleneck
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.network import CodecModel
from solfa.models.codec.trained_start import START_SCALE, codebook_moments, start_from
from solfa.nn.seanet import SeanetConfig

DIM = 3
NETWORK = SeanetConfig(num_filters=2, dim=DIM, strides=(2,), lstm_layers=0)


def trained_rvq() -> CodecModel:
    """A codec with entries all over the place, chosen unevenly."""
    torch.manual_seed(0)
    rvq = Rvq(num_codebooks=2, codebook_size=4, kmeans_init=False)
    model = CodecModel(CodecModelConfig(sample_rate=100, network=NETWORK, bottleneck=rvq)).double()
    assert isinstance(model.bottleneck, RvqBottleneck)
    quantizer = model.bottleneck.quantizer
    quantizer.codebooks.copy_(torch.randn(2, 4, DIM) * torch.tensor([5.0, 1.0, 0.2]) + 3)
    quantizer.counts.copy_(torch.rand(2, 4) + 0.1)
    return model.eval()


def gaussian_of(trained: CodecModel, channels: int) -> tuple[CodecModel, str]:
    config = trained.config.model_copy(update={"bottleneck": Gaussian(latent_channels=channels)})
    model = CodecModel(config).double()
    return model.eval(), start_from(model, trained, "it")


def every_sum(model: CodecModel) -> tuple[Tensor, Tensor]:
    """All sums of an entry of each codebook, and how probable each is."""
    assert isinstance(model.bottleneck, RvqBottleneck)
    quantizer = model.bottleneck.quantizer
    shares = quantizer.counts / quantizer.counts.sum(1, keepdim=True)
    pairs = list(product(range(4), repeat=2))
    sums = torch.stack([quantizer.codebooks[0, i] + quantizer.codebooks[1, j] for i, j in pairs])
    return sums, torch.stack([shares[0, i] * shares[1, j] for i, j in pairs])


def moments(values: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    mean = shares @ values
    return mean, (values - mean).T @ torch.diag(shares) @ (values - mean)


def test_moments_of_codebooks_are_those_of_all_sums_of_their_entries() -> None:
    trained = trained_rvq()
    assert isinstance(trained.bottleneck, RvqBottleneck)
    quantizer = trained.bottleneck.quantizer
    found = codebook_moments(quantizer.codebooks, quantizer.counts)
    for part, wanted in zip(found, moments(*every_sum(trained)), strict=True):
        assert torch.allclose(part, wanted)


def test_a_gaussian_starts_with_unit_variances_and_loses_nothing() -> None:
    trained = trained_rvq()
    model, told = gaussian_of(trained, DIM)
    assert "codebooks" in told and isinstance(model.bottleneck, GaussianBottleneck)
    sums, shares = every_sum(trained)
    means, scales = model.bottleneck.distribution(sums.T[None])
    mean, covariance = moments(means[0], shares)
    assert torch.allclose(mean, torch.zeros(DIM).double(), atol=1e-9)
    assert torch.allclose(covariance, torch.eye(DIM).double(), atol=1e-9)
    assert torch.allclose(scales, torch.full_like(scales, START_SCALE), atol=1e-3)
    audio = torch.randn(1, 1, 40).double()
    assert torch.allclose(model.decode(model.encode(audio)), trained.decoder(trained.encoder(audio)))


def test_fewer_channels_keep_the_widest_directions() -> None:
    trained = trained_rvq()
    model, _ = gaussian_of(trained, 2)
    sums, shares = every_sum(trained)
    kept = model.bottleneck.decode(model.bottleneck.encode(sums.T[None]))[0].T
    lost = shares @ (kept - sums).square().sum(1)
    variances = torch.linalg.eigvalsh(moments(sums, shares)[1])
    assert torch.allclose(lost, variances[0])


def test_other_bottlenecks_start_fresh_the_same_is_kept_and_another_network_is_refused() -> None:
    trained = trained_rvq()
    same = CodecModel(trained.config).double()
    start_from(same, trained, "it")
    assert all(torch.equal(value, same.state_dict()[name]) for name, value in trained.state_dict().items())
    other = CodecModel(trained.config.model_copy(update={"bottleneck": Fsq(levels=(3, 3, 3))})).double()
    assert "fresh" in start_from(other, trained, "it")
    audio = torch.randn(1, 1, 40).double()
    assert torch.equal(other.eval().encoder(audio), trained.encoder(audio))
    wide = trained.config.model_copy(update={"network": NETWORK.model_copy(update={"num_filters": 4})})
    with pytest.raises(ConfigError, match=r"model\.network"):
        start_from(CodecModel(wide), trained, "it")
