"""Stereo all the way: encode, train, generate and decode; left stays left, right stays right."""

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

import solfa
from solfa.generate.request import Variation
from tests.codecs import tiny
from tests.solvers.tasks.test_flow import flow_values, solver_of

RATE = 44_100


def write_two_sided(folder: Path) -> None:
    """Noise on the left, silence on the right."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in range(4):
        left = 0.3 * rng.standard_normal(RATE // 2)
        soundfile.write(folder / f"{name}.wav", np.stack([left, np.zeros_like(left)], axis=1), RATE)


def separate_sides(path: Path) -> Path:
    """Write an Oobleck whose latents 0 and 1 know the left channel only, and 2 and 3 the right one only."""
    from diffusers import AutoencoderOobleck
    from safetensors.torch import load_file, save_file

    mono = tiny.make_oobleck(path, seed=3)
    config = json.loads((mono / "config.json").read_text())
    narrow = {
        **config,
        "audio_channels": 1,
        "decoder_input_channels": 2,
        "encoder_hidden_size": 4,
        "decoder_channels": 3,
    }
    wide = {**config, "encoder_hidden_size": 8, "decoder_channels": 6, "decoder_input_channels": 4}
    with tiny.seeded(5):
        part = AutoencoderOobleck.from_config(narrow)
        tiny.scatter(part, gain=0.8)
        whole = AutoencoderOobleck.from_config(wide)
    state, own = whole.state_dict(), part.state_dict()
    for name, tensor in state.items():
        tensor.copy_(_block_diagonal(name, own[name], tensor))
    save_file(state, path / "diffusion_pytorch_model.safetensors")
    assert load_file(path / "diffusion_pytorch_model.safetensors").keys() == state.keys()
    (path / "config.json").write_text(json.dumps(wide))
    return path


def _block_diagonal(name: str, own: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Put a tensor of the narrow network into the wide one twice, once for each side."""
    wide = torch.zeros_like(like)
    if name.endswith("weight_v"):
        rows, columns = own.shape[:2]
        # The encoder's last convolution gives the means and then the scales.
        pieces = 2 if name == "encoder.conv2.weight_v" else 1
        for side in range(2):
            for piece in range(pieces):
                size = rows // pieces
                here = slice(piece * 2 * size + side * size, piece * 2 * size + (side + 1) * size)
                block = slice(side * columns, (side + 1) * columns)
                wide[here, block] = own[piece * size : (piece + 1) * size]
        return wide
    axis = next((place for place, (a, b) in enumerate(zip(own.shape, like.shape, strict=True)) if a != b), 0)
    if name in ("encoder.conv2.weight_g", "encoder.conv2.bias"):
        means, scales = own.chunk(2, dim=axis)
        return torch.cat([means, means, scales, scales], dim=axis)
    return torch.cat([own, own], dim=axis)


@pytest.mark.slow
def test_left_stays_left_from_recordings_to_generated_clips(tmp_path: Path) -> None:
    write_two_sided(tmp_path / "audio")
    codec = separate_sides(tmp_path / "codec")
    solfa.encode(tmp_path / "audio", tmp_path / "d.solfa", codec=solfa.load_codec(str(codec)))
    dataset = solfa.open_dataset(tmp_path / "d.solfa")
    quiet = solfa.load_codec(str(codec)).encode(torch.zeros(1, 2, RATE // 2)).array[0].numpy()
    for clip in dataset:
        # Latents are stored in float16.
        assert np.allclose(clip.array[:, 2:], quiet[:, 2:], rtol=1e-3, atol=1e-3), "the right side is silent"
        assert np.abs(clip.array[:, :2] - quiet[:, :2]).mean() > 0.1

    values = flow_values(
        tmp_path / "d.solfa",
        dset__hold_out={"clips": 1},
        dataset__segment_seconds=0.02,
        optim__epochs=1,
        optim__updates_per_epoch=20,
        conditioner={"conditioners": {}},
        generate={"every": None},
    )
    solver = solver_of(tmp_path / "xp", values)
    (tmp_path / "xp").mkdir(exist_ok=True)
    (tmp_path / "xp" / "config.json").write_text(solver.cfg.model_dump_json())
    solver.run()
    model = solfa.load_model(tmp_path / "xp", device="cpu")
    assert model.info.num_channels == 2
    silence = model.codec.decode(model.codec.encode(torch.zeros(1, 2, RATE // 2)))[0].numpy()
    (clip,) = model.generate(seconds=0.02, seed=1, steps=8)
    sound = clip.samples()[:, 400:480]
    # Away from the beginning, silence repeats itself with every frame, of 40 samples.
    change = np.abs(sound - silence[:, 8000:8080]).mean(axis=1)
    assert change[0] > 3 * change[1], change
    (same,) = model.generate(seconds=0.02, edit=Variation(tmp_path / "audio" / "0.wav", 0.0))
    short = model.codec.decode(model.codec.encode(torch.zeros(1, 2, RATE // 50)))[0].numpy()
    change = np.abs(same.samples()[:, :800] - short[:, :800]).mean(axis=1)
    assert change[0] > 100 * change[1], change
