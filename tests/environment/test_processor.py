from pathlib import Path

import pytest

from solfa.environment import processor
from solfa.environment.processor import advertises_amx, cpu_flags, describe_processor

CORE = (
    "processor\t: {core}\nmodel name\t: {name}\ncpu MHz\t\t: {clock}\nsiblings\t: {clock}\n"
    "flags\t\t: fpu avx2 {flags}\nTLB size\t: 3\n"
)


def written(folder: Path, *cores: str) -> Path:
    path = folder / "cpuinfo"
    path.write_text("\n".join(cores))
    return path


@pytest.fixture
def info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = written(tmp_path, *(CORE.format(core=core, name="A", clock=1, flags="fma") for core in (0, 1)))
    monkeypatch.setattr(processor, "_INFO", path)
    return path


def test_the_flags_are_those_of_the_processor(info: Path) -> None:
    assert cpu_flags() == {"fpu", "avx2", "fma"} and not advertises_amx()
    written(info.parent, CORE.format(core=0, name="A", clock=1, flags="amx_tile"))
    assert advertises_amx()


def test_its_clock_and_the_number_of_cores_do_not_make_it_another(info: Path) -> None:
    before = describe_processor()
    written(info.parent, CORE.format(core=7, name="A", clock=3000, flags="fma"))
    assert describe_processor() == before


@pytest.mark.parametrize("changed", [{"name": "B"}, {"flags": "fma avx512f"}])
def test_its_model_and_its_features_do(info: Path, changed: dict[str, str]) -> None:
    before = describe_processor()
    written(info.parent, CORE.format(**{"core": 0, "name": "A", "clock": 1, "flags": "fma"} | changed))
    assert describe_processor() != before


def test_a_system_that_lists_nothing_is_described_by_its_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_INFO", tmp_path / "none")
    monkeypatch.setattr(processor, "_CACHES", tmp_path)
    assert cpu_flags() == frozenset() and len(describe_processor()) == 1
