"""Findings about a machine: kept once, read by others, and not taken for those of other settings."""

import json
from pathlib import Path

import pytest
import torch

from solfa.errors import ConfigError
from solfa.nn.kernels import machine_memory
from solfa.nn.kernels.machine_memory import finding_file, recall, remember


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine_memory, "cache_folder", lambda: tmp_path)
    return tmp_path


def test_the_first_finding_is_kept_and_everybody_goes_by_it() -> None:
    path = finding_file("order", "a layer", (1, 2))
    assert recall(path) is None
    assert remember(path, {"order": (16, 3)}) == {"order": [16, 3]}
    assert remember(path, {"order": (8, 1)}) == {"order": [16, 3]} == recall(path)


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "DNNL_VERBOSE", "ATEN_CPU_CAPABILITY", "MKL_CBWR"])
def test_a_variable_that_chooses_code_makes_it_another_finding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    before = finding_file("order", "a layer")
    monkeypatch.setenv(name, "1")
    assert finding_file("order", "a layer") != before
    monkeypatch.delenv(name)
    assert finding_file("order", "a layer") == before != finding_file("order", "another")


def test_without_onednn_it_is_another_finding() -> None:
    before = finding_file("order", "a layer")
    with torch.backends.mkldnn.flags(enabled=False):
        assert finding_file("order", "a layer") != before
    assert finding_file("order", "a layer") == before


@pytest.mark.parametrize("kind", ["conv", "matmul"])
def test_the_precision_of_products_makes_it_another_finding(kind: str) -> None:
    setting = getattr(torch.backends.mkldnn, kind, None)
    if not hasattr(setting, "fp32_precision"):
        pytest.skip("this torch has no such setting")
    before, precision = finding_file("order", "a layer"), setting.fp32_precision
    try:
        setting.fp32_precision = "bf16"
        assert finding_file("order", "a layer") != before
    finally:
        setting.fp32_precision = precision


def test_another_processor_has_findings_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = finding_file("order", "a layer")
    monkeypatch.setattr(machine_memory, "describe_processor", lambda: ["another"])
    machine_memory._processor_and_versions.cache_clear()
    try:
        assert finding_file("order", "a layer") != before
    finally:
        machine_memory._processor_and_versions.cache_clear()


def test_where_nothing_can_be_kept_a_finding_still_counts(folder: Path) -> None:
    (folder / "a file").write_text("")
    path = folder / "a file" / "order.json"
    assert remember(path, {"order": None}) == {"order": None}


def test_a_damaged_finding_is_one_sentence(folder: Path) -> None:
    path = folder / "order.json"
    path.write_text(json.dumps([1]))
    with pytest.raises(ConfigError, match=r"order\.json.*remove it"):
        recall(path)
