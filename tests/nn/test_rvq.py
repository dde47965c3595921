"""Residual vector quantization: the search, codebooks that learn, dropout, exact resume, several processes."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from solfa.nn.rvq import ResidualVectorQuantizer, kmeans, nearest_entries
from tests.nn.rvq_rank import build, train


def clusters(num: int, batch: int, frames: int, spread: float = 0.05) -> Tensor:
    """Vectors around `num` fixed centres, far from each other."""
    centres = 5 * torch.randn(num, 4, generator=torch.Generator().manual_seed(9))
    chosen = torch.randint(num, (batch, frames))
    return centres[chosen] + spread * torch.randn(batch, frames, 4)


def filled(num_codebooks: int = 3, size: int = 8, **options: float) -> ResidualVectorQuantizer:
    """A quantizer that knows the data already."""
    quantizer = ResidualVectorQuantizer(num_codebooks, size, 4, **options)
    for _ in range(3):
        quantizer(torch.randn(4, 30, 4))
    return quantizer


def test_codes_are_the_nearest_entries_of_each_residual() -> None:
    quantizer = filled().eval()
    vectors = torch.randn(2, 5, 4)
    codes = quantizer.encode(vectors)
    for b in range(2):
        for t in range(5):
            residual = vectors[b, t].double()
            for k, codebook in enumerate(quantizer.codebooks.double()):
                distances = [float((residual - entry).square().sum()) for entry in codebook]
                assert int(codes[b, t, k]) == distances.index(min(distances))
                residual = residual - codebook[codes[b, t, k]]


def test_decode_sums_entries_and_equals_forward() -> None:
    quantizer = filled().eval()
    vectors = torch.randn(2, 5, 4)
    codes = quantizer.encode(vectors)
    slow = sum(quantizer.codebooks[k][codes[..., k]] for k in range(3))
    assert torch.allclose(quantizer.decode(codes), slow)
    quantized = quantizer(vectors)
    assert torch.equal(quantized.vectors, quantizer.decode(codes)) and torch.equal(quantized.codes, codes)


def test_codes_of_a_decoded_vector_decode_to_the_same_vector() -> None:
    quantizer = filled(num_codebooks=1).eval()
    decoded = quantizer.decode(quantizer.encode(torch.randn(2, 50, 4)))
    assert torch.equal(quantizer.decode(quantizer.encode(decoded)), decoded)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_first_codebooks_are_the_first_codes_of_all(k: int) -> None:
    quantizer = filled().eval()
    vectors = torch.randn(2, 9, 4)
    assert torch.equal(quantizer.encode(vectors, k), quantizer.encode(vectors)[..., :k])


def test_every_codebook_more_lessens_the_error() -> None:
    quantizer = filled(num_codebooks=4, size=16).eval()
    vectors = torch.randn(4, 100, 4)
    errors = [(quantizer.decode(quantizer.encode(vectors, k)) - vectors).square().mean() for k in (1, 2, 3, 4)]
    assert errors == sorted(errors, reverse=True)
    assert errors[3] < 0.2 * errors[0]


def test_gradients_go_straight_through_and_commitment_pulls_towards_entries() -> None:
    quantizer = filled().eval()
    vectors = torch.randn(1, 6, 4, requires_grad=True)
    weights = torch.randn(1, 6, 4)
    quantized = quantizer(vectors)
    (straight,) = torch.autograd.grad((quantized.vectors * weights).sum(), vectors, retain_graph=True)
    assert torch.equal(straight, weights)
    (pull,) = torch.autograd.grad(quantized.commitment, vectors)
    with torch.no_grad():
        assert quantizer(vectors - 0.05 * pull).commitment < quantized.commitment


def test_encode_and_eval_change_nothing_and_draw_nothing() -> None:
    quantizer = filled(dropout=1.0, expire_below=0.9)
    state = {name: tensor.clone() for name, tensor in quantizer.state_dict().items()}
    random = torch.get_rng_state()
    vectors = 3 * torch.randn(2, 9, 4, generator=torch.Generator())
    codes = quantizer.encode(vectors)  # in training mode
    quantizer.decode(codes)
    assert torch.equal(quantizer.eval()(vectors).codes, codes)
    assert all(torch.equal(tensor, state[name]) for name, tensor in quantizer.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random)


def test_eval_before_training_does_not_start_the_codebooks() -> None:
    quantizer = ResidualVectorQuantizer(2, 8, 4).eval()
    before = quantizer.codebooks.clone()
    quantizer(torch.randn(1, 50, 4))
    assert torch.equal(quantizer.codebooks, before) and not quantizer.initialized


def test_first_training_batch_starts_every_codebook_by_kmeans() -> None:
    quantizer = ResidualVectorQuantizer(2, 6, 4, expire_below=0.0)
    batch = clusters(6, 4, 50)
    quantized = quantizer(batch)
    assert quantizer.initialized
    # Of six far clusters, k-means may join some in the first codebook; the second takes up what is left.
    assert (quantized.vectors - batch).square().mean() < 0.02 * batch.square().mean()


def test_kmeans_finds_means_and_counts() -> None:
    vectors = torch.tensor([[0.0], [0.2], [0.1], [9.0], [9.2]])
    means, sizes = kmeans(vectors, 2, 5)
    order = means[:, 0].argsort()
    assert torch.allclose(means[order, 0], torch.tensor([0.1, 9.1])) and sizes[order].tolist() == [3, 2]


def test_kmeans_of_fewer_vectors_than_clusters_leaves_the_others_empty() -> None:
    means, sizes = kmeans(torch.tensor([[0.0], [1.0]]), 5, 3)
    assert sizes.sum() == 2 and means.isfinite().all()


def test_entries_are_running_means_of_what_chose_them() -> None:
    decay, size = 0.8, 4
    quantizer = ResidualVectorQuantizer(1, size, 4, decay=decay, expire_below=0.0, kmeans_iterations=0)
    counts = quantizer.counts[0].double()
    sums = quantizer.codebooks[0].double() * counts[:, None]
    for _ in range(5):
        batch = torch.randn(2, 7, 4)
        codes = nearest_entries(batch.flatten(0, 1), quantizer.codebooks[0])
        quantizer(batch)
        one_hot = torch.nn.functional.one_hot(codes, size).double()
        counts = decay * counts + (1 - decay) * one_hot.sum(0)
        sums = decay * sums + (1 - decay) * one_hot.T @ batch.flatten(0, 1).double()
        assert torch.allclose(quantizer.counts[0].double(), counts, atol=1e-5)
        assert torch.allclose(quantizer.codebooks[0].double(), sums / counts[:, None], atol=1e-4)


@pytest.mark.parametrize(("expire_below", "expected"), [(0.0, 2), (0.1, 16)])
def test_entries_that_nothing_chooses_come_back_to_life(expire_below: float, expected: int) -> None:
    quantizer = ResidualVectorQuantizer(1, 16, 4, decay=0.9, expire_below=expire_below, kmeans_iterations=0)
    quantizer.codebooks[:, 2:] = 1000.0
    usage = []
    for _ in range(60):
        quantizer(torch.randn(4, 100, 4))
        usage.append(len(quantizer.encode(torch.randn(8, 100, 4)).unique()))
    assert usage[0] <= 2
    assert usage[-1] == expected


def test_a_replaced_entry_is_a_vector_of_the_batch_and_counts_as_an_average_one() -> None:
    quantizer = ResidualVectorQuantizer(1, 4, 4, decay=0.5, expire_below=0.5, kmeans_iterations=0)
    quantizer.codebooks[:, 3], quantizer.counts[:, 3] = 1000.0, 0.0
    batch = torch.randn(1, 9, 4)
    quantized = quantizer(batch)
    assert quantized.replaced >= 0.25
    assert (batch[0] == quantizer.codebooks[0, 3]).all(dim=1).any()
    assert quantizer.counts[0, 3] > 0.5


def test_dropout_rebuilds_clips_from_first_codebooks_in_training_only() -> None:
    quantizer = filled(num_codebooks=4, dropout=1.0, decay=0.999, expire_below=0.0)
    vectors = torch.randn(64, 3, 4)
    before = {k: quantizer.decode(quantizer.encode(vectors, k)) for k in (1, 2, 3, 4)}
    drawn = quantizer(vectors).vectors
    depth = [next(k for k, decoded in before.items() if torch.allclose(decoded[i], drawn[i])) for i in range(64)]
    assert set(depth) == {1, 2, 3, 4}
    quantizer.eval()
    assert torch.equal(quantizer(vectors).vectors, quantizer.decode(quantizer.encode(vectors)))


def test_dropout_of_half_the_clips_leaves_the_other_half_whole() -> None:
    torch.manual_seed(2)
    used = ResidualVectorQuantizer(8, 4, 4, dropout=0.5)._draw_used(2000).sum(1)
    assert used.min() == 1
    # Half are whole, and of the drawn ones one in eight.
    assert abs((used == 8).float().mean() - (0.5 + 0.5 / 8)) < 0.04


def test_an_interrupted_run_ends_with_the_same_codebooks() -> None:
    def steps(quantizer: ResidualVectorQuantizer, first: int, last: int) -> None:
        for step in range(first, last):
            data = torch.Generator().manual_seed(step)
            quantizer(torch.randn(3, 20, 4, generator=data))

    options = {"dropout": 0.5, "expire_below": 0.6, "decay": 0.8}
    whole, first, second = (ResidualVectorQuantizer(2, 16, 4, **options) for _ in range(3))
    for quantizer in (first, second):
        quantizer.load_state_dict(whole.state_dict())
    torch.manual_seed(7)
    steps(whole, 0, 8)
    torch.manual_seed(7)
    steps(first, 0, 3)
    random = torch.get_rng_state()
    torch.manual_seed(12345)
    second.load_state_dict(first.state_dict())
    torch.set_rng_state(random)
    steps(second, 3, 8)
    for name, tensor in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], tensor), name


@pytest.mark.slow
def test_processes_share_the_statistics_of_the_global_batch(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.nn.rvq_rank", str(tmp_path)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    ours, others = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    for name in ("plain", "expiring"):
        assert all(torch.equal(ours[name][key], others[name][key]) for key in ours[name])
    alone = train(build(expiring=False), slice(0, 2))
    assert all(torch.allclose(alone[key].float(), ours["plain"][key].float(), atol=1e-6) for key in alone)
