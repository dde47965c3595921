"""How an error that nobody expected leaves the command."""

from pathlib import Path

import pytest

from tests.cli.conftest import SolfaMain


def test_an_error_without_an_experiment_has_its_traceback_in_a_file(
    solfa_main: SolfaMain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    def examine() -> None:
        raise MemoryError

    monkeypatch.setattr("solfa.environment.doctor.examine", examine)
    code, output = solfa_main("doctor")
    (log,) = tmp_path.rglob("*-doctor-*.log")
    assert code == 1 and "out of memory" in output and "more memory" in output and "Traceback" not in output
    assert str(log) in output and "MemoryError" in log.read_text()
