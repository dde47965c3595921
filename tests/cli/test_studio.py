"""`solfa studio` as a user types it: one sentence for what cannot be, before anything listens."""

import builtins
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import solfa.studio
from solfa.cli.main import main


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command, which has to be refused; return what it says."""

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["solfa", "studio", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main()
        assert leaving.value.code == 2
        return " ".join(capsys.readouterr().err.split())

    return run


def test_other_machines_need_a_password(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "--password" in refused("--runs", tmp_path, "--host", "0.0.0.0")
    monkeypatch.setenv("SOLFA_STUDIO_PASSWORD", "short")
    assert "8 characters" in refused("--runs", tmp_path, "--host", "0.0.0.0", "--password")


def test_a_port_that_is_taken(refused: Callable[..., str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"--port {port}" in refused("--runs", tmp_path, "--port", port)


def test_what_is_not_there(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "nowhere.solfa" in refused(tmp_path / "nowhere.solfa", "--runs", tmp_path)
    assert "--runs" in refused("--runs", tmp_path / "nowhere")
    assert "--source" in refused("--runs", tmp_path, "--source", tmp_path / "nowhere")


def test_without_the_packages_it_says_what_to_install(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = builtins.__import__

    def without_starlette(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "starlette":
            raise ModuleNotFoundError("No module named 'starlette'", name="starlette")
        return find(name, *rest, **more)

    monkeypatch.setattr(solfa, "studio", solfa.studio)  # importing it again puts another one there
    for name in [name for name in sys.modules if name.startswith(("solfa.studio", "starlette"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without_starlette)
    assert "pip install 'solfa[studio]'" in refused("--runs", tmp_path)
