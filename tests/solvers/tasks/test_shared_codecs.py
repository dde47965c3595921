"""Codecs from which nothing can be learnt are refused before audio is encoded with them."""

import json
from pathlib import Path

import pytest

from solfa.config import parse_config
from solfa.data.sources.dset import Dset, HoldOut, Source
from solfa.errors import ConfigError
from solfa.solvers.tasks.flow import FlowSolver, FlowSolverConfig
from solfa.solvers.tasks.lm import LMConfig, LMSolver
from solfa.solvers.tasks.shared_codecs import expect_codecs
from tests.codecs import tiny
from tests.solvers.tasks.test_flow import flow_values
from tests.solvers.tasks.test_lm import lm_values


def audio(folder: Path, codec: str) -> Dset:
    (folder / "songs").mkdir(exist_ok=True)
    return Dset(train=[Source(path=str(folder / "songs"), codec=codec)], hold_out=HoldOut(clips=1))


def test_codes_are_for_language_models_without_scales_and_latents_for_flow_models(tmp_path: Path) -> None:
    loud, oobleck = (str(tiny.make_encodec(tmp_path / "e", "48khz")), str(tiny.make_oobleck(tmp_path / "o")))
    expect_codecs(audio(tmp_path, "mulaw"), "codes", "a language model")
    expect_codecs(audio(tmp_path, oobleck), "latents", "a flow model")
    with pytest.raises(ConfigError, match=r"needs codes.*gives latents"):
        expect_codecs(audio(tmp_path, oobleck), "codes", "a language model")
    with pytest.raises(ConfigError, match="loudness"):
        expect_codecs(audio(tmp_path, loud), "codes", "a language model")
    flow = parse_config(FlowSolverConfig, {**flow_values(tmp_path), "dset": audio(tmp_path, "mulaw")}, "flow")
    with pytest.raises(ConfigError, match=r"needs latents.*gives codes"):
        FlowSolver.check_start(flow)


def test_a_stereo_musicgen_is_refused_before_anything_is_encoded(tmp_path: Path) -> None:
    (tmp_path / "stereo").mkdir()
    decoder = {"model_type": "musicgen_decoder", "audio_channels": 2, "num_codebooks": 8}
    (tmp_path / "stereo" / "config.json").write_text(json.dumps(decoder))
    values = {**lm_values(tmp_path), "dset": audio(tmp_path, "mulaw"), "continue_from": str(tmp_path / "stereo")}
    with pytest.raises(ConfigError, match="stereo"):
        LMSolver.check_start(parse_config(LMConfig, values, "lm"))
