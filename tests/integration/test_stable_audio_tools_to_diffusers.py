"""From an autoencoder and a diffusion transformer of stable-audio-tools to a pipeline of diffusers."""

import json
from pathlib import Path
from typing import Any

import diffusers
import numpy as np
import pytest
import torch

from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec
from solfa.encoding.fingerprint import array_spec
from solfa.errors import ConfigError
from solfa.generate.diffusers_export import export_as_diffusers
from solfa.generate.model import load_model
from solfa.models.flow.generation import clip_noise
from solfa.models.flow.published_models import read_published
from solfa.solvers.tasks.flow import FlowSolver
from solfa.store.array_dataset import append_arrays
from solfa.store.planned_clip import PlannedClip
from solfa.store.schema import DatasetInfo
from solfa.store.shard_writer import Outcome
from solfa.xp.layout import BEST
from tests.codecs import tiny
from tests.codecs.stable_audio_tools.test_autoencoder import edited
from tests.generate.test_diffusers_export import FRAMES, draw_there
from tests.models.conditioners.tiny_encoders import write_t5
from tests.models.flow import restated_dit
from tests.models.flow.test_published_models import write_tools
from tests.solvers.tasks.test_flow import flow_values, solver_of

SECONDS = FRAMES * 40 / 44_100
VAE = edited(
    tiny.OOBLECK_CONFIG,
    latent_dim=restated_dit.CHANNELS,
    encoder__config__channels=2 * restated_dit.CHANNELS,
    encoder__config__latent_dim=2 * restated_dit.CHANNELS,
    decoder__config__latent_dim=restated_dit.CHANNELS,
    decoder__config__final_tanh=False,
)


def store_noise(root: Path, codec: Codec) -> None:
    """Store what a codec makes of six clips of noise."""
    audio = 0.3 * torch.randn(
        6, codec.num_channels, codec.hop_length * FRAMES, generator=torch.Generator().manual_seed(0)
    )
    outcomes = [
        Outcome(PlannedClip(name, name, name, caption="slow piano"), latents.numpy(), num_samples=audio.shape[-1])
        for name, latents in zip((f"{index}.wav" for index in range(6)), codec.encode(audio).array, strict=True)
    ]
    info = DatasetInfo.of(codec.spec, array_spec(codec, "float32"), {"codec": codec.spec})
    append_arrays(root, info, outcomes, {}, clips_per_shard=6)


def tune(folder: Path, continue_from: str, **changes: Any) -> FlowSolver:
    """Set up the fine-tuning of a published network on the latents of a folder."""
    text = {"kind": "text", "encoder": str(folder / "t5"), "max_tokens": 6, "project": False}
    values = flow_values(
        folder / "d.solfa",
        model={**read_published(continue_from).settings, "normalise": False},
        conditioner={"conditioners": {"prompt": text}},
        dataset__segment_seconds=SECONDS,
        inpainting={"segments": 0.0, "beginnings": 0.0},
        continue_from=continue_from,
        generate={"every": None},
        optim__epochs=1,
        optim__updates_per_epoch=2,
        **changes,
    )
    solver = solver_of(folder / "xp", values)
    (folder / "xp").mkdir(exist_ok=True)
    (folder / "xp" / "config.json").write_text(solver.cfg.model_dump_json())
    return solver


@pytest.mark.slow
def test_what_was_tuned_on_latents_of_stable_audio_tools_sounds_the_same_in_diffusers(tmp_path: Path) -> None:
    path = tiny.make_stable_audio_oobleck(tmp_path / "vae", config=VAE)
    codec = load_codec(f"{path}:checkpoint={path.parent / 'model.safetensors'}")
    store_noise(tmp_path / "d.solfa", codec)
    write_t5(tmp_path / "t5", width=restated_dit.COND)
    published = write_tools(tmp_path / "dit", "open")
    tune(tmp_path, published).run()
    export_as_diffusers(tmp_path / "xp", tmp_path / "out")

    # The autoencoder, against the network as stable-audio-tools has it; all in float64, with sums in another order.
    original = tiny.oobleck_network(VAE).double()
    latents = torch.randn(2, restated_dit.CHANNELS, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    vae = diffusers.AutoencoderOobleck.from_pretrained(tmp_path / "out" / "vae").double()
    with torch.no_grad():
        torch.testing.assert_close(vae.decode(latents).sample, original.decoder(latents), rtol=1e-9, atol=1e-9)
    assert load_codec(tmp_path / "out" / "vae").fingerprint == codec.fingerprint

    # The network: what was trained, and nothing else, is where the next run begins.
    best = torch.load(tmp_path / "xp" / BEST, weights_only=True)["states"]["model"]
    again = tune(tmp_path, str(tmp_path / "out"))
    again.load_pretrained(str(tmp_path / "out"))
    state = again.network.state_dict()
    assert state.keys() == best.keys() and all(torch.equal(state[name], tensor) for name, tensor in best.items())
    start = read_published(published).state
    assert any(not torch.equal(state[f"dit.{name}"], tensor.float()) for name, tensor in start.items()), "trained"

    # The whole of it.
    noise = clip_noise([torch.Generator().manual_seed(3)], restated_dit.CHANNELS, FRAMES)
    (clip,) = load_model(tmp_path / "xp", device="cpu").generate(
        "slow piano", seconds=SECONDS, seed=3, sampler="euler", steps=4, guidance_scale=3.0
    )
    there = draw_there(tmp_path / "out", "open", noise, SECONDS, hears=False)[0].numpy()
    here = clip.samples()[:, : there.shape[1]]
    assert there.shape[1] > 470 and here.std() > 1e-3
    assert np.allclose(here, there, atol=1e-4 * float(np.abs(there).max()) + 1e-5)  # float32, in another order

    # An autoencoder that diffusers does not have.
    path.write_text(json.dumps(edited(VAE, decoder__config__final_tanh=True)))
    with pytest.raises(ConfigError, match=r"AutoencoderOobleck.*final_tanh true instead of false"):
        export_as_diffusers(tmp_path / "xp", tmp_path / "other")
    assert not (tmp_path / "other").exists()
