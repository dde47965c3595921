"""SaShiMi: causal, the same network in one piece, in many and step by step, in the published sizes."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.models.sashimi.network import Sashimi, SashimiConfig, SashimiState, previous_classes
from solfa.nn.s4d import S4D
from solfa.nn.sashimi_blocks import FeedForward
from solfa.solvers.optim.parameter_groups import ParameterGroup, Rules, group_parameters

V, P = 11, 7
PLAIN = {"pool": (2, 3)}
UNET = {"pool": (3, 2), "n_layers": 2, "unet": True, "glu": True, "tie": "per_channel"}
VARIANTS = pytest.mark.parametrize(
    "variant", [PLAIN, UNET, {"pool": ()}, {"pool": (2,), "expand": 1}], ids=["plain", "unet", "flat", "one pool"]
)


def make_model(**settings: object) -> Sashimi:
    sizes = {"num_classes": V, "dim": 4, "n_layers": 1, "d_state": 4, "dt_min": 0.05, "dt_max": 0.5}
    return Sashimi(SashimiConfig.model_validate({**sizes, **settings}), P).double()


def make_classes(batch: int, num_samples: int) -> Tensor:
    return torch.randint(0, V, (batch, num_samples))


def stepped(model: Sashimi, classes: Tensor, state: SashimiState) -> tuple[Tensor, SashimiState]:
    outputs = []
    for column in classes.unbind(1):
        output, state = model.step(column, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


def tensors(state: SashimiState) -> list[Tensor]:
    found: list[Tensor] = []
    state.map(lambda tensor: found.append(tensor) or tensor)
    return found


def assert_same_state(one: SashimiState, other: SashimiState) -> None:
    for mine, theirs in zip(tensors(one), tensors(other), strict=True):
        assert mine.shape == theirs.shape and torch.allclose(mine, theirs, rtol=0, atol=1e-12)


@VARIANTS
@torch.no_grad()
def test_steps_equal_the_forward_at_every_phase_of_the_pools(variant: dict[str, object]) -> None:
    model, classes = make_model(**variant), make_classes(2, 21)
    outputs, last = model.forward_with_state(classes)
    one_by_one, state = stepped(model, classes, model.initial_state(2))
    assert (outputs - one_by_one).abs().max() < 1e-12
    assert_same_state(last, state)
    for num_samples in range(1, 14):
        assert (model(classes[:, :num_samples]) - outputs[:, :num_samples]).abs().max() < 1e-12


@torch.no_grad()
def test_steps_equal_the_forward_with_the_pools_and_precision_of_the_paper() -> None:
    model, classes = make_model(pool=(4, 4), dim=8, d_state=16).float(), make_classes(1, 150)
    outputs, last = model.forward_with_state(classes)
    with model.fixed():
        one_by_one, state = stepped(model, classes, model.initial_state(1))
    assert outputs.dtype == torch.float32
    assert (outputs - one_by_one).abs().max() < 1e-5
    for mine, theirs in zip(tensors(last), tensors(state), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)


@pytest.mark.parametrize("unet", [False, True])
@torch.no_grad()
def test_tiers_are_joined_as_the_paper_draws_them(unet: bool) -> None:
    model, classes = make_model(pool=(4,), n_layers=2, unet=unet), make_classes(2, 12)
    tier, x = model.tier, model.embedding(classes)
    given = [x]
    for layer in tier.down:
        given.append(layer(given[-1])[0])
    slow = tier.pooled.down.linear(given[-1].reshape(2, 3, 16))
    centre = slow
    for layer in tier.pooled.inner.up:
        centre = layer(centre)[0]
    fine = tier.pooled.up.linear(centre + slow).reshape(2, 12, 4)
    x = entering = F.pad(fine, (0, 0, 4, 0))[:, :12] + given.pop()
    for layer in tier.up:
        x = layer(x)[0] + (given.pop() if unet else 0)
    expected = model.projection(model.norm(x if unet else x + entering))
    assert not given and len(tier.down) == (4 if unet else 0)
    assert (model(classes) - expected).abs().max() < 1e-12


@VARIANTS
@torch.no_grad()
def test_a_class_changes_its_own_output_and_later_ones_only(variant: dict[str, object]) -> None:
    model, steps = make_model(**variant), 20
    classes = make_classes(1, steps).repeat(steps, 1)
    changed = classes.clone()
    changed.diagonal().copy_((changed.diagonal() + 1) % V)  # row t differs at t
    difference = (model(changed) - model(classes)).abs().amax(-1)
    past = torch.ones(steps, steps).tril(-1).bool()
    assert difference[past].max() < 1e-13
    assert difference[~past].min() > 1e-7


def test_the_slow_tiers_are_heard_from_one_pooled_step_later() -> None:
    model = make_model(pool=(4,))
    up = model.tier.pooled.up
    classes = make_classes(1, 12)
    before = model(classes)
    with torch.no_grad():
        up.linear.bias += torch.randn_like(up.linear.bias)
    difference = (model(classes) - before).abs().amax(-1)[0]
    assert difference[:4].max() < 1e-13 and difference[4:].min() > 1e-6


@pytest.mark.parametrize("variant", [PLAIN, {**UNET, "n_layers": 1}], ids=["plain", "unet"])
@torch.no_grad()
def test_a_sequence_may_be_cut_anywhere_and_read_in_either_way(variant: dict[str, object]) -> None:
    model, classes = make_model(**variant), make_classes(2, 16)
    outputs, last = model.forward_with_state(classes)
    for cut in range(1, 14):
        first, state = model.forward_with_state(classes[:, :cut])
        middle, state = stepped(model, classes[:, cut : cut + 2], state)
        end, state = model.forward_with_state(classes[:, cut + 2 :], state)
        assert (torch.cat([first, middle, end], dim=1) - outputs).abs().max() < 1e-12
        assert_same_state(state, last)


@torch.no_grad()
def test_a_state_holds_no_memory_of_a_long_segment() -> None:
    model = make_model(pool=(4,))
    state = model.forward_with_state(make_classes(1, 403))[1]
    assert state.tier.pooled.waiting.shape[1] == 3 and state.tier.pooled.ready.shape[1] == 1
    assert all(tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize for tensor in tensors(state))


@torch.no_grad()
def test_steps_use_the_parameters_of_the_moment() -> None:
    model, classes = make_model(**UNET), make_classes(2, 9)
    with model.fixed():
        state = stepped(model, classes, model.initial_state(2))[1]
    old = model(classes, state)
    for parameter in model.parameters():
        parameter += 0.05 * torch.randn_like(parameter)
    new = model(classes, state)
    assert (stepped(model, classes, state)[0] - new).abs().max() < 1e-12
    assert (old - new).abs().max() > 1e-3


def test_autocast_leaves_states_outputs_and_the_residual_stream_in_float32() -> None:
    model, classes = make_model(**PLAIN, dim=32).float(), make_classes(2, 40)
    plain = model(classes)
    dtypes: set[torch.dtype] = set()
    for module in model.modules():
        if isinstance(module, FeedForward):
            module.register_forward_hook(lambda module, args, output: dtypes.add(output[0].dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs, state = model.forward_with_state(classes)
        step, next_state = model.step(classes[:, 0], state)
    assert outputs.dtype == step.dtype == torch.float32 and dtypes == {torch.float32}
    for tensor in (*tensors(state), *tensors(next_state)):
        # Energies that are counted are integers.
        assert tensor.dtype in (torch.float32, torch.complex64, torch.int64) and tensor.isfinite().all()
    assert 0 < (outputs - plain).abs().max() < 0.1  # the linear layers are in bfloat16
    outputs.square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize(("n_layers", "published"), [(2, 1.29), (4, 2.21), (6, 3.13), (8, 4.05)])
def test_sizes_are_those_of_the_paper(n_layers: int, published: float) -> None:
    assert count_millions(n_layers=n_layers) == pytest.approx(published, abs=0.01)


def test_the_size_of_the_unet_is_published_but_for_the_low_rank_part_that_diagonal_systems_lack() -> None:
    settings = {"unet": True, "glu": True, "tie": "per_channel"}
    config = SashimiConfig(num_classes=256, **settings)
    channels = 2 * config.width(0) + 2 * config.width(1) + config.width(2)
    low_rank = channels * config.n_layers * config.d_state * 1e-6
    assert count_millions(**settings) + low_rank == pytest.approx(6.8, abs=0.05)


def count_millions(**settings: object) -> float:
    model = Sashimi(SashimiConfig.model_validate({"num_classes": 256, **settings}), 256)
    return sum(parameter.numel() for parameter in model.parameters()) / 1e6


@pytest.mark.parametrize("variant", [PLAIN, {**UNET, "dropout": 0.3}], ids=["plain", "unet with dropout"])
def test_checkpointing_computes_twice_and_gives_the_same_gradients(variant: dict[str, object]) -> None:
    classes, state, gradients, calls = make_classes(2, 14), None, [], []
    for checkpointing in (False, True):
        torch.manual_seed(1)
        model = make_model(**variant, gradient_checkpointing=checkpointing)
        counted: list[int] = []
        for module in model.modules():
            if isinstance(module, S4D | FeedForward):
                module.register_forward_pre_hook(lambda *_, counted=counted: counted.append(1))
        first, state = model.forward_with_state(classes[:, :9])
        second = model(classes[:, 9:], state)
        (first.square().mean() + second.square().mean()).backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
        calls.append(len(counted))
    assert calls[1] == 2 * calls[0]
    for plain, again in zip(*gradients, strict=True):
        assert torch.allclose(plain, again, rtol=1e-12, atol=1e-15)


def test_a_detached_state_ends_the_gradient_and_changes_nothing_else() -> None:
    model, classes = make_model(**PLAIN), make_classes(2, 30)
    embedded: list[Tensor] = []

    def listen(module: nn.Module, args: object, output: Tensor) -> None:
        output.retain_grad()
        embedded.append(output)

    model.embedding.register_forward_hook(listen)
    outputs = []
    for change in (lambda tensor: tensor, Tensor.detach):
        _, state = model.forward_with_state(classes[:, :17])
        outputs.append(model(classes[:, 17:], state.map(change)))
        outputs[-1].square().sum().backward()
    assert torch.equal(*outputs)
    assert embedded[0].grad[:, :12].abs().sum() > 0 and embedded[2].grad is None
    assert embedded[3].grad.abs().sum() > 0


def test_it_learns_what_only_the_past_tells() -> None:
    model = make_model(pool=(2,), dim=8).float()
    classes = torch.randint(0, V, (4, 1), generator=torch.Generator().manual_seed(0)) + torch.arange(40) * 3
    classes %= V
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(40):
        outputs = model(previous_classes(classes % P, model.start(4)))
        loss = F.cross_entropy(outputs.transpose(1, 2), classes % P)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss < 0.8  # log 7 = 1.95 without looking back


def test_shifted_classes_begin_with_the_start_or_the_class_before() -> None:
    model, classes = make_model(), torch.tensor([[3, 4, 5], [6, 7, 8]])
    assert previous_classes(classes, model.start(2)).tolist() == [[V, 3, 4], [V, 6, 7]]
    assert previous_classes(classes[:, 1:], classes[:, 0]).tolist() == [[3, 4], [6, 7]]
    assert previous_classes(classes[:, :1], model.start(2)).tolist() == [[V], [V]]
    assert model(previous_classes(classes, model.start(2))).shape == (2, 3, P)


def test_one_pattern_finds_the_dynamics_and_nothing_there_decays() -> None:
    model = make_model(**UNET)
    groups = group_parameters(model, Rules(4e-3, 0.1, (ParameterGroup(pattern="*.dynamics.*", lr_scale=0.25),)))
    slow = [group for group in groups if group.lr == 1e-3]
    assert [group.weight_decay for group in slow] == [0.0]
    assert {name.split(".")[-1] for name, _ in slow[0].parameters} == {"log_A_real", "A_imag", "B", "log_dt"}
    assert len(slow[0].parameters) == 4 * sum(isinstance(module, S4D) for module in model.modules())
    decayed = {name.split(".")[-1] for group in groups if group.weight_decay for name, _ in group.parameters}
    assert decayed == {"weight", "C", "D"}
    fixed = {name for group in groups if not group.weight_decay for name, _ in group.parameters}
    assert "tier.up.0.norm.weight" in fixed and "tier.up.0.norm.bias" in fixed


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"pool": [4, 1]}, r"pools .*found \[4, 1\]"),
        ({"dt_min": 0.5}, "dt_min .*dt_max, found 0.5 and 0.1"),
        ({"d_state": 5}, "multiple of 2"),
        ({"tie": "n_ssm"}, "tied"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parse_config(SashimiConfig, settings, "model")


def test_the_number_of_classes_comes_from_the_dataset_or_agrees_with_it() -> None:
    assert SashimiConfig().sized(256).num_classes == SashimiConfig(num_classes=256).sized(256).num_classes == 256
    with pytest.raises(ConfigError, match=r"num_classes: .*256, found 64"):
        SashimiConfig(num_classes=64).sized(256)
    with pytest.raises(ConfigError, match=r"num_classes: .*found none"):
        Sashimi(SashimiConfig(), 256)
