"""The choice of a kernel: measured once, remembered for the machine, and not worth it for small models."""

import json
from pathlib import Path

import pytest
import torch

from solfa.errors import ConfigError
from solfa.models.lm import fastest_way as module
from solfa.models.lm.fastest_way import SMALL_MODEL, choice_file, choose_way, fastest_way
from solfa.models.lm.network import CodecLMConfig
from solfa.nn.kernels import machine_memory
from solfa.nn.kernels.library import NoKernelError
from solfa.nn.kernels.structures import load_decoder


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Measure a tiny decoder, and keep the choice in a folder of the test's own."""
    probe = CodecLMConfig(num_codebooks=1, codebook_size=16, dim=32, num_layers=1, num_heads=2, ffn_dim=64)
    monkeypatch.setattr(module, "_PROBE", probe)
    monkeypatch.setattr(machine_memory, "cache_folder", lambda: tmp_path)
    try:
        return load_decoder().name
    except NoKernelError as reason:
        pytest.skip(f"no kernel here: {reason}")


def test_the_way_with_the_least_time_over_all_batches_is_chosen() -> None:
    assert choose_way({"kernel": (1.0, 4.0), "torch": (3.0, 3.0)}) == "kernel"
    assert choose_way({"kernel": (1.0, 9.0), "torch": (1.5, 3.0)}) == "torch"
    assert choose_way({"torch": (1.0, 1.0)}) == "torch"


def test_a_choice_is_measured_once_and_then_read(kernel: str) -> None:
    state = torch.random.get_rng_state()
    way = fastest_way("fp32", SMALL_MODEL)
    assert torch.equal(torch.random.get_rng_state(), state)
    path = choice_file("fp32", kernel)
    kept = json.loads(path.read_text())
    seconds = {name: tuple(times) for name, times in kept["seconds"].items()}
    assert kept["way"] == way == choose_way(seconds) and set(seconds) == {"kernel", "torch"}
    written = path.stat().st_mtime_ns
    path.with_name("other").write_text(json.dumps({**kept, "way": "torch" if way == "kernel" else "kernel"}))
    assert fastest_way("fp32", SMALL_MODEL) == way and path.stat().st_mtime_ns == written
    path.with_name("other").replace(path)
    assert fastest_way("fp32", SMALL_MODEL) != way


def test_small_models_and_machines_without_a_compiler_are_not_measured(
    kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fastest_way("int8", SMALL_MODEL - 1) == "kernel"
    assert not choice_file("int8", kernel).exists()
    monkeypatch.setenv("CC", "no-such-compiler")
    assert fastest_way("int8", SMALL_MODEL) == "kernel"
    assert not list(tmp_path.rglob("way-*"))


def test_another_number_of_threads_is_another_choice(kernel: str) -> None:
    before, threads = choice_file("fp16", kernel), torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        assert choice_file("fp16", kernel) != before
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize(("content", "told"), [("{", "remove it"), ('{"way": "magic"}', "found 'magic'; remove it")])
def test_a_damaged_choice_is_one_sentence(kernel: str, content: str, told: str) -> None:
    choice_file("int4", kernel).write_text(content)
    with pytest.raises(ConfigError, match=f"way-int4-.*{told}"):
        fastest_way("int4", SMALL_MODEL)
