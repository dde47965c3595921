"""Fused generation: the numbers and the draws of the network itself, in any batch, and PyTorch where it cannot be."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.sashimi.config import CategoricalHeadConfig, DmlHeadConfig
from solfa.models.sashimi.heads import OutputHead
from solfa.models.sashimi.kernel.library import load_kernel
from solfa.models.sashimi.kernel.stepper import FusedStepper, fused_stepper
from solfa.models.sashimi.network import Sashimi, SashimiConfig, previous_classes
from solfa.nn.kernels.library import NoKernelError
from solfa.ops.class_grid import LinearGrid, MulawGrid
from solfa.ops.temperature import TemperatureSemantics, draw_uniforms

V = 64
VARIANTS = {
    "plain": {},
    "unet": {"pool": (3, 2), "unet": True, "glu": True, "tie": "per_channel"},
    "flat": {"pool": ()},
    "one pool, no wider": {"pool": (2,), "expand": 1, "glu": True},
    "odd widths": {"dim": 13, "expand": 3, "pool": (2, 3), "d_state": 6},
    "wide": {"dim": 72, "pool": (2,), "unet": True},
    "shifted norms": {"norm": "shifted", "pool": (2,)},
}
KINDS = {
    "categorical": (CategoricalHeadConfig(), MulawGrid(bits=6)),
    "dml": (DmlHeadConfig(n_mixtures=3, prediction_order=0), MulawGrid(bits=6)),
    "dml with a path": (DmlHeadConfig(n_mixtures=3, prediction_order=5), MulawGrid(bits=6)),
    "dml with a path, 9 bits": (DmlHeadConfig(n_mixtures=3, prediction_order=16), LinearGrid(bits=9)),
    "dml with an opening": (DmlHeadConfig(n_mixtures=3, prediction_order=5, opening_samples=20), LinearGrid(bits=6)),
}
HEADS: dict[str, OutputHead] = {name: config.build(grid) for name, (config, grid) in KINDS.items()}
every_head = pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compile into a folder of the test's own; skip where nothing compiles."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        try:
            load_kernel()
        except NoKernelError as reason:
            pytest.skip(f"no kernel here: {reason}")
        yield


def make_model(head: OutputHead = HEADS["categorical"], **settings: object) -> Sashimi:
    torch.manual_seed(3)
    sizes = {"num_classes": head.num_classes, "dim": 16, "n_layers": 2, "pool": (4, 4), "d_state": 8}
    config = SashimiConfig.model_validate({**sizes, **settings})
    kind, grid = next(KINDS[name] for name, known in HEADS.items() if known is head)
    model = Sashimi(config, head.num_parameters, kind.linear_path(grid, config.dim)).eval()
    if model.linear_path is not None:
        model.linear_path.fit([0.1 * torch.randn(2000).cumsum(0).sin()], model.projection, 3)
    with torch.no_grad():
        for parameter in model.parameters():
            # What starts as zero or one would hide a mistake.
            parameter += 0.05 * torch.randn_like(parameter)
    return model


def make_stepper(model: Sashimi, head: OutputHead, batch: int) -> FusedStepper:
    stepper = fused_stepper(model, head, batch)
    assert stepper is not None
    return stepper


def stepped(stepper: FusedStepper, classes: Tensor) -> Tensor:
    return torch.stack([stepper.step(column) for column in classes.unbind(1)], dim=1)


def make_uniforms(head: OutputHead, batch: int, num_samples: int) -> Tensor:
    return draw_uniforms((batch, num_samples, head.num_uniforms), torch.Generator().manual_seed(1))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
@torch.no_grad()
def test_steps_equal_those_of_the_network(variant: dict[str, object]) -> None:
    model, classes = make_model(**variant), torch.randint(0, V + 1, (5, 40))
    outputs = model(classes)
    assert outputs.abs().amax(dim=(0, 2)).min() > 0.1
    assert (stepped(make_stepper(model, HEADS["categorical"], 5), classes) - outputs).abs().max() < 1e-5


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("kind", ["dml with a path", "dml with a path, 9 bits"])
@torch.no_grad()
def test_steps_read_residuals_in_the_cells_that_the_network_reads_them_in(kind: str) -> None:
    head = HEADS[kind]
    model, classes = make_model(head), torch.randint(0, head.num_classes + 1, (3, 200))
    path = model.linear_path
    # Rows of another magnitude: one residual in the cell beside its own would be seen.
    path.residuals.weight.mul_(torch.linspace(1, 100, 257)[:, None])
    assert (stepped(make_stepper(model, head, 3), classes) - model(classes)).abs().max() < 1e-4


@pytest.mark.usefixtures("kernels")
@torch.no_grad()
def test_steps_hear_the_beginning_in_the_cells_that_the_network_hears_it_in() -> None:
    head = HEADS["dml with an opening"]
    model = make_model(head)
    path = model.linear_path
    assert path is not None and path.opening is not None
    loudness = torch.linspace(0, 1, 60)[:, None]
    classes = (head.num_classes / 2 + loudness * (head.num_classes / 2 - 1) * torch.randn(60, 40).clamp(-1, 1)).long()
    for rows in (path.opening.amplitudes, path.opening.residuals):
        rows.weight.mul_(torch.linspace(1, 100, len(rows.weight))[:, None])
    inputs = previous_classes(classes, model.start(60))
    assert len(path.read(inputs, path.silence(60), torch.zeros(60, 3, dtype=torch.int64)).opening.unique(dim=0)) > 30
    assert (stepped(make_stepper(model, head, 60), inputs) - model(inputs)).abs().max() < 1e-4


@pytest.mark.usefixtures("kernels")
@every_head
@torch.no_grad()
def test_nothing_drifts_over_thousands_of_steps(head: OutputHead) -> None:
    model = make_model(head, dim=32, d_state=64)
    stepper = make_stepper(model, head, 1)
    classes, log_prob = stepper.run(model.start(1), make_uniforms(head, 1, 4096))
    outputs, state = model.forward_with_state(previous_classes(classes, model.start(1)))
    assert (log_prob - head.log_prob(outputs, classes)).abs().max() < 1e-4
    assert (stepper.step(classes[:, -1]) - model.step(classes[:, -1], state)[0]).abs().max() < 1e-4


@pytest.mark.usefixtures("kernels")
@every_head
@pytest.mark.parametrize(
    ("temperature", "semantics"), [(1.0, "heuristic"), (0.7, "heuristic"), (0.7, "exact"), (0.0, "heuristic")]
)
@torch.no_grad()
def test_draws_and_log_probs_are_the_heads(
    head: OutputHead, temperature: float, semantics: TemperatureSemantics
) -> None:
    model, uniforms = make_model(head), make_uniforms(head, 3, 100)
    classes, log_prob = make_stepper(model, head, 3).run(model.start(3), uniforms, temperature, semantics)
    outputs = model(previous_classes(classes, model.start(3)))
    expected = head.draw_with(outputs, uniforms, temperature, semantics)
    # A number within rounding of the border of two classes may fall to either.
    assert (classes != expected).sum() <= 1
    assert (classes - expected).abs().max() <= 1
    assert (log_prob - head.log_prob(outputs, classes)).abs().max() < 1e-4
    assert temperature == 0 or len(classes.unique()) > 10


@pytest.mark.usefixtures("kernels")
@every_head
@torch.no_grad()
def test_outputs_far_from_any_training_still_have_finite_log_probs(head: OutputHead) -> None:
    model, uniforms = make_model(head), make_uniforms(head, 2, 50)
    model.projection.weight.mul_(300)
    classes, log_prob = make_stepper(model, head, 2).run(model.start(2), uniforms)
    outputs = model(previous_classes(classes, model.start(2)))
    assert classes.min() >= 0 and classes.max() < head.num_classes
    # Outputs are hundreds here, and so are their roundings.
    torch.testing.assert_close(log_prob, head.log_prob(outputs, classes), rtol=1e-3, atol=1e-2)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        ("categorical", "plain"),
        ("categorical", "unet"),
        ("dml with a path", "odd widths"),
        ("dml with an opening", "plain"),
    ],
)
@torch.no_grad()
def test_a_prompt_read_by_convolution_is_handed_over_at_every_phase(kind: str, variant: str) -> None:
    head = HEADS[kind]
    model = make_model(head, **VARIANTS[variant])
    classes = torch.randint(0, V, (2, 34))
    expected, stepper = model(classes), make_stepper(model, head, 2)
    for num_samples in (1, 2, 3, 4, 9, 16, 18, 23):
        stepper.load(model.forward_with_state(classes[:, :num_samples])[1])
        assert (stepped(stepper, classes[:, num_samples:]) - expected[:, num_samples:]).abs().max() < 1e-5


@pytest.mark.usefixtures("kernels")
@every_head
def test_many_runs_equal_one(head: OutputHead) -> None:
    model, uniforms = make_model(head), make_uniforms(head, 2, 60)
    whole = make_stepper(model, head, 2).run(model.start(2), uniforms)
    stepper, last, parts = make_stepper(model, head, 2), model.start(2), []
    for numbers in uniforms.split([7, 1, 32, 20], dim=1):
        parts.append(stepper.run(last, numbers))
        last = parts[-1].classes[:, -1]
    for one, many in zip(whole, zip(*parts, strict=True), strict=True):
        assert torch.equal(one, torch.cat(many, dim=1))


@pytest.mark.usefixtures("kernels")
@every_head
def test_a_clip_depends_neither_on_the_others_nor_on_threads(head: OutputHead) -> None:
    # With these threads, groups have every number of clips that is computed side by side.
    model, uniforms, before = make_model(head, dim=72), make_uniforms(head, 17, 30), torch.get_num_threads()
    single, alone = make_stepper(model, head, 1), []
    for numbers in uniforms.split(1):
        single.load(model.initial_state(1))
        alone.append(single.run(model.start(1), numbers))
    for num_threads in (1, 2, 7):
        try:
            torch.set_num_threads(num_threads)
            together = make_stepper(model, head, 17).run(model.start(17), uniforms)
        finally:
            torch.set_num_threads(before)
        for one, many in zip(together, zip(*alone, strict=True), strict=True):
            assert torch.equal(one, torch.cat(many)), f"{num_threads} threads"


@pytest.mark.usefixtures("kernels")
def test_draws_do_not_depend_on_the_width_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    head = HEADS["categorical"]
    model, uniforms = make_model(head, dim=72), make_uniforms(head, 3, 100)
    widest = make_stepper(model, head, 3).run(model.start(3), uniforms)
    monkeypatch.setenv("CC", f"{os.environ.get('CC') or 'cc'} -mno-avx512f")
    try:
        load_kernel()
    except NoKernelError as reason:
        pytest.skip(f"no such vectors here: {reason}")
    narrow = make_stepper(model, head, 3).run(model.start(3), uniforms)
    for one, other in zip(widest, narrow, strict=True):
        assert torch.equal(one, other)


@pytest.mark.usefixtures("kernels")
def test_a_stepper_made_after_an_update_has_the_new_weights() -> None:
    model, head, classes = make_model(), HEADS["categorical"], torch.randint(0, V, (1, 20))
    before = stepped(make_stepper(model, head, 1), classes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
        after = stepped(make_stepper(model, head, 1), classes)
        assert (after - before).abs().max() > 1e-3
        assert (after - model(classes)).abs().max() < 1e-5


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("classes", [[0, V + 1], [-1, 0], [0]])
def test_what_is_no_class_is_refused(classes: list[int]) -> None:
    stepper = make_stepper(make_model(), HEADS["categorical"], 2)
    with pytest.raises(ConfigError, match=f"^classes: .*2 from 0 to {V}"):
        stepper.step(torch.tensor(classes))


@pytest.mark.usefixtures("kernels")
def test_the_kernel_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = load_kernel()
    (library,) = tmp_path.rglob("*.*")
    made = library.stat().st_mtime_ns
    assert load_kernel() is first and library.stat().st_mtime_ns == made


@pytest.mark.parametrize(
    ("compiler", "reason"), [("no-such-compiler", "does not run"), ("false", "'false' does not work")]
)
def test_without_a_compiler_the_log_says_so(
    compiler: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", compiler)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert fused_stepper(make_model(), HEADS["dml"], 1) is None
    assert reason in caplog.text and "PyTorch" in caplog.text


def test_a_compiler_that_fails_is_quoted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken = tmp_path / "cc"
    broken.write_text('#!/bin/sh\nfor word; do [ "$word" = -dM ] && exit 0; done\necho "out of paper" >&2\nexit 1\n')
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with caplog.at_level(logging.WARNING):
        assert fused_stepper(make_model(), HEADS["dml"], 1) is None
    assert "out of paper" in caplog.text


@pytest.mark.parametrize("kind", ["double", "dropout", "norm"])
def test_models_the_kernel_does_not_know_are_stepped_by_torch(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"double": {}, "dropout": {"dropout": 0.1}, "norm": {"norm": "per_channel"}}[kind]
    model = make_model(**settings).train(kind == "dropout")
    model = model.double() if kind == "double" else model
    with caplog.at_level(logging.WARNING):
        assert fused_stepper(model, HEADS["categorical"], 1) is None
    told = {"double": "float64 on cpu", "dropout": "training mode", "norm": "one per channel"}
    assert told[kind] in caplog.text
