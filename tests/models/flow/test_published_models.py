"""Models of stable-audio-tools and stable-audio-3 predict here what their own arithmetic predicts."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from solfa.errors import ConfigError
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.flow.config import StableAudio3Config, StableAudioOpenConfig
from solfa.models.flow.network import build_flow
from solfa.models.flow.published_models import load_dit, read_published
from solfa.models.lm.conditions import Conditions
from tests.models.flow import restated_dit as restated

KINDS = ("open", "three")
SECONDS = {"open": [[0.0, 30.0], [12.5, 170.0]], "three": [[30.0], [170.0]]}


def write_tools(folder: Path, kind: str, **changes: object) -> str:
    """Write a model as stable-audio-tools has it, and name it."""
    folder.mkdir()
    (folder / "model_config.json").write_text(json.dumps(restated.model_config(kind, **changes)))
    save_file(restated.checkpoint(kind), folder / "model.safetensors")
    return f"{folder / 'model_config.json'}:checkpoint={folder / 'model.safetensors'}"


def network_of(published, location):
    config = (StableAudioOpenConfig if published.settings["kind"] == "stable_audio_open" else StableAudio3Config)(
        **published.settings
    )
    network = build_flow(config, ConditionsConfig(), published.num_channels).double()
    load_dit(network.dit, published, location)
    for module in network.modules():
        if hasattr(module, "force_fp32"):
            module.force_fp32 = False  # what is compared is the arithmetic, in float64
        if hasattr(module, "freqs"):
            module.freqs = module.freqs.float()  # except for angles of many turns
    return network


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_stable_audio_tools_predicts_what_it_predicted_there(tmp_path: Path, kind: str) -> None:
    location = write_tools(tmp_path / "model", kind, scale=2.5)
    published = read_published(location)
    assert published.scale == 2.5 and published.trained_frames == 64 and published.left == {"pretransform": 1}
    network = network_of(published, location)
    generator = torch.Generator().manual_seed(5)
    draw = lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)  # noqa: E731
    points, known, words = draw(2, 4, 9), draw(2, 5, 9), draw(2, 4, restated.COND)
    times, seconds = torch.tensor([0.3, 0.8]).double(), torch.tensor(SECONDS[kind]).double()
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    # A model without conditioners of its own is told what those would say.
    network.conditioners.conditioners["prompt"] = torch.nn.Identity()
    told = network.told(Conditions(cross=words * mask[..., None], cross_mask=mask), seconds)
    with torch.no_grad():
        found = network.predict(points, times, told, known=known if kind == "three" else None)

    state = restated.checkpoint(kind)
    own = {name.removeprefix("model.model."): value for name, value in state.items()}
    names = published.settings["timing"]
    vectors = [restated.seconds_vector(state, name, kind, seconds[:, i]) for i, name in enumerate(names)]
    padding = state.get("conditioner.conditioners.prompt.padding_embedding", torch.zeros(restated.COND).double())
    filled = torch.where(mask[..., None], words, padding)
    context = torch.cat([filled, padding.expand(2, 2, -1), torch.stack(vectors, dim=1)], dim=1)
    if kind == "open":
        expected = restated.predict_open(own, points, times, context, torch.cat(vectors, dim=-1))
    else:
        expected = restated.predict_three(own, points, times, context, vectors[0], known, eps=1e-5)
    assert torch.allclose(found, expected, rtol=0, atol=1e-6 * float(expected.abs().max()))


@pytest.mark.parametrize("kind", KINDS)
def test_without_any_condition_the_whole_context_is_zeros(tmp_path: Path, kind: str) -> None:
    network = network_of(read_published(write_tools(tmp_path / "model", kind)), "it")
    network.conditioners.conditioners["prompt"] = torch.nn.Identity()
    nothing = Conditions(cross=torch.zeros(2, 1, restated.COND).double(), cross_mask=torch.ones(2, 1).bool())
    told = network.told(nothing, torch.tensor(SECONDS[kind]).double())
    context, mask = told.whole_context()
    assert context.shape[1] == 6 + len(SECONDS[kind][0]) and mask.all() and not context.any()
    assert told.timing.any()


def test_tensors_and_settings_that_have_no_place_are_refused_by_name(tmp_path: Path) -> None:
    location = write_tools(tmp_path / "model", "open")
    weights = tmp_path / "model" / "model.safetensors"
    state = restated.checkpoint("open")
    save_file({**state, "model.model.transformer.layers.0.conformer.weight": torch.ones(1)}, weights)
    published = read_published(location)
    with pytest.raises(ConfigError, match="conformer"):
        network_of(published, location)
    save_file({f"diffusion.{name}": value for name, value in state.items()}, weights)
    with pytest.raises(ConfigError, match="unwrap"):
        read_published(location)
    del state["model.model.preprocess_conv.weight"]
    save_file(state, weights)
    with pytest.raises(ConfigError, match=r"missing dit\.preprocess_conv"):
        network_of(read_published(location), location)
    config = restated.model_config("open")
    config["model"]["diffusion"]["config"]["attn_kwargs"] = {"qk_norm": "rms"}
    (tmp_path / "model" / "model_config.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="qk_norm"):
        read_published(location)


def test_a_folder_with_a_model_config_is_enough(tmp_path: Path) -> None:
    write_tools(tmp_path / "model", "open")
    assert read_published(str(tmp_path / "model")).settings["objective"] == "v"
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(ConfigError, match="checkpoint="):
        read_published(str(tmp_path / "model"))
