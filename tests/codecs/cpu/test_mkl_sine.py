import ctypes

import pytest
import torch

from solfa.codecs.cpu import mkl_sine
from solfa.codecs.cpu.exact_activations import ExactSnake
from solfa.codecs.cpu.frame_kernel import load_frame_kernel
from solfa.codecs.cpu.mkl_sine import LIMIT, find_sine, has_equal_bits, load_sine, trial_numbers
from solfa.nn.kernels import machine_memory


def test_the_sine_found_is_pytorchs():
    sine = find_sine()
    if sine is None:
        pytest.skip("there is no other code for the sine here")
    torch.manual_seed(1)
    numbers = 30 * torch.randn(5_003)
    made = torch.empty_like(numbers)
    sine(len(numbers), numbers.data_ptr(), made.data_ptr())
    assert torch.equal(made, numbers.sin())


def test_numbers_of_all_sizes_are_tried():
    numbers = trial_numbers()
    sizes = numbers.abs()
    assert float(sizes.max()) <= LIMIT and bool((sizes > LIMIT / 2).any())
    assert bool(((sizes > 0) & (sizes < 1e-38)).any()) and bool((numbers == 0).any()) and len(numbers) > 1 << 21


@pytest.mark.parametrize("change", ["one bit", "one number too many", "other bits in place"])
def test_a_function_that_is_not_quite_the_sine_is_refused(change, monkeypatch):
    def almost(length, source, target):
        given, out = view(source, length), view(target, length + 1)
        made = given.sin()
        if length == 1000 and (change == "one bit" or (change == "other bits in place" and source == target)):
            made[999] = torch.nextafter(made[999], torch.tensor(2.0))
        out[:length] = made
        if length == 17 and change == "one number too many":
            out[length] = 0

    monkeypatch.setattr(mkl_sine, "load_sine", lambda _: almost)
    monkeypatch.setattr(mkl_sine, "trial_numbers", lambda: torch.linspace(-9, 9, 5000))
    assert not has_equal_bits("any")


def view(address: int, length: int) -> torch.Tensor:
    return torch.frombuffer((ctypes.c_float * length).from_address(address), dtype=torch.float32)


def test_there_is_none_under_a_name_that_the_library_does_not_have():
    assert load_sine("mkl_vml_kernel_of_nothing") is None
    assert not has_equal_bits("mkl_vml_kernel_of_nothing")


@pytest.fixture
def memory(tmp_path, monkeypatch):
    if find_sine() is None:
        pytest.skip("there is no other code for the sine here")
    monkeypatch.setattr(machine_memory, "cache_folder", lambda: tmp_path)
    find_sine.cache_clear()
    yield tmp_path
    find_sine.cache_clear()


@pytest.mark.parametrize("passes", [True, False])
def test_it_is_tried_once_per_machine(passes, memory, monkeypatch):
    tried = []
    monkeypatch.setattr(mkl_sine, "_try", lambda name: bool(tried.append(name)) or passes)
    for _ in range(2):
        assert (find_sine() is not None) == passes
        find_sine.cache_clear()  # as in another process
    assert len(tried) == 1 and len(list(memory.glob("sine-*.json"))) == 1


def test_a_trial_that_ends_for_another_reason_is_repeated_by_the_next_process(memory, monkeypatch):
    monkeypatch.setattr(mkl_sine, "_try", lambda _: None)
    assert find_sine() is None and not list(memory.iterdir())
    find_sine.cache_clear()  # as in another process
    monkeypatch.setattr(mkl_sine, "_try", lambda _: True)
    assert find_sine() is not None


@pytest.mark.parametrize(
    ("trial", "verdict"),
    [
        ("import ctypes; ctypes.string_at(0)", False),
        ("raise SystemExit(3)", False),
        ("import nothing_of_that_name", None),
    ],
)
def test_a_trial_that_crashes_is_no_sine_and_one_that_cannot_start_says_nothing(trial, verdict, monkeypatch):
    monkeypatch.setattr(mkl_sine, "_TRIAL", f"{trial}  # {{name}}")
    assert mkl_sine._try("any") is verdict


@pytest.mark.slow
def test_the_trial_agrees_with_what_is_tried_here():
    name = mkl_sine._NAMES.get(torch.backends.cpu.get_cpu_capability())
    if name is None or load_sine(name) is None:
        pytest.skip("there is no other code for the sine here")
    assert mkl_sine._try(name) is has_equal_bits(name)
    assert mkl_sine._try("mkl_vml_kernel_of_nothing") is False


@pytest.mark.parametrize("largest", [1.0, LIMIT - 1, LIMIT + 1, torch.inf, torch.nan])
def test_snakes_of_numbers_beyond_the_limit_have_the_bits_of_pytorch(largest):
    kernel = load_frame_kernel()
    if kernel is None:
        pytest.skip("there is no C compiler here")
    torch.manual_seed(0)
    x = torch.randn(1, 40, 64)
    x[0, 20, 33] = largest
    snake = ExactSnake(torch.ones(1, 64, 1), torch.rand(1, 64, 1))
    made, expected = snake.by(kernel, x.mT), snake.by_torch(x.mT)
    assert torch.equal(made.nan_to_num(nan=7.0), expected.nan_to_num(nan=7.0))
