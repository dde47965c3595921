"""A checkpoint is found in a directory or by its Hub id, and what cannot be found is said in one sentence."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from solfa.errors import ConfigError
from solfa.pretrained.directory import CONFIG
from solfa.pretrained.hub import TEXT_MODEL, find_config, is_hub_id, local_directory, quiet_loading


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Hub cache with one model, `someone/model`, and no network."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    root = tmp_path / "models--someone--model"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text("0" * 40)
    snapshot = root / "snapshots" / ("0" * 40)
    snapshot.mkdir(parents=True)
    (snapshot / "pytorch_model.bin").touch()
    return snapshot


@pytest.fixture
def disconnected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty Hub cache, a Hub that refuses connections, and nobody who has the time to wait for it."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # never listens
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setattr("time.sleep", lambda seconds: pytest.fail("waits to try again"))
        yield


def test_names_of_the_hub_are_told_from_paths():
    assert is_hub_id("facebook/musicgen-small") and is_hub_id("gpt2")
    assert not any(map(is_hub_id, ("./x", "../x", "/x", "~/x", "a/b/c", "", "a b")))


def test_a_directory_is_itself_wherever_one_stands(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    assert local_directory("mine") == local_directory(Path("mine")) == tmp_path / "mine"
    with pytest.raises(ConfigError, match=r"revision.*'main'"):
        local_directory("mine", "main")


@pytest.mark.parametrize("wanted", [{}, {"wanted": TEXT_MODEL}])
def test_a_hub_id_is_its_snapshot_with_the_weights_that_are_there(cache, wanted):
    assert local_directory("someone/model", **wanted) == cache


def test_what_is_nowhere_is_answered_by_the_name_that_messages_know(cache, tmp_path):
    with pytest.raises(ConfigError, match=r"^text encoder someone/other: .*cache.*network"):
        local_directory("someone/other", what="text encoder")
    for place in ("./nothing", str(tmp_path / "nothing"), tmp_path / "nothing"):
        with pytest.raises(ConfigError, match="no such directory"):
            local_directory(place)


@pytest.mark.usefixtures("disconnected")
def test_without_a_connection_the_answer_is_immediate_and_alone(capfd):
    """In every kind of load: the small file that says what a codec is, and directories of weights."""
    for load in (
        lambda: find_config("someone/model", "", "codec"),
        lambda: find_config("someone/model", "vae", "codec"),
        lambda: local_directory("someone/model"),
    ):
        with pytest.raises(ConfigError, match=r"someone/model.*network"):
            load()
    assert capfd.readouterr() == ("", "")


def test_a_config_of_the_hub_is_found_in_the_cache(cache):
    assert find_config("someone/model", "", "codec") is None
    with pytest.raises(ConfigError, match=r"someone/model.*network"):
        find_config("someone/model", "vae", "codec")
    (cache / CONFIG).touch()
    assert find_config("someone/model", "", "codec") == cache / CONFIG


def test_a_config_is_found_or_is_not_there(tmp_path):
    (tmp_path / "vae").mkdir()
    (tmp_path / "vae" / CONFIG).touch()
    assert find_config(tmp_path, "", "codec") is None
    assert find_config(tmp_path, "vae", "codec") == tmp_path / "vae" / CONFIG


def test_quiet_loading_gives_the_library_its_voice_back():
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    with pytest.raises(KeyError), quiet_loading():
        assert logging.get_verbosity() == logging.ERROR and not logging.is_progress_bar_enabled()
        raise KeyError
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
