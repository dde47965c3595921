"""Settings for one executor are not silently ignored by another."""

import pytest

import solfa
from solfa.encoding.executors.executor_choice import choose_workforce
from solfa.encoding.executors.local_executor import LocalExecutor
from solfa.errors import ConfigError

UNSET = {"ray_address": None, "encoder_cpus": None, "encoder_gpus": None}


def test_encoders_run_on_this_machine_unless_asked_otherwise():
    chosen = choose_workforce("local", "cpu", 3, 0, **UNSET)
    assert isinstance(chosen.executor, LocalExecutor)
    assert (chosen.encoders.count, chosen.encoders.device) == (3, "cpu")


@pytest.mark.parametrize("given", [{"ray_address": "node:1"}, {"encoder_cpus": 2.0}, {"encoder_gpus": 0.0}])
def test_what_only_ray_uses_is_refused_without_it(given):
    with pytest.raises(ConfigError, match=f"`{next(iter(given))}`: .*`executor=ray`"):
        choose_workforce("local", "cpu", None, None, **{**UNSET, **given})


def test_an_unknown_executor_and_a_codec_that_cannot_travel_are_refused(audio_folder, tmp_path):
    with pytest.raises(ConfigError, match=r"`executor`: .*local or ray"):
        choose_workforce("dask", "cpu", None, None, **UNSET)
    with pytest.raises(ConfigError, match=r"`executor=ray`: .*codec"):
        solfa.encode(audio_folder, tmp_path / "d.solfa", codec=solfa.load_codec("mulaw"), executor="ray")
    assert not (tmp_path / "d.solfa").exists()
