"""One suite over every codec: what the protocol promises, whatever the family."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec, Encoded
from solfa.errors import ConfigError
from tests.codecs import tiny
from tests.codecs.double import in_double

NAMES = [
    "mulaw", "mulaw_stereo", "linear", "encodec_24khz", "encodec_32khz", "encodec_48khz", "dac", "mimi", "oobleck",
    "same", "ace_step", "stable_audio_oobleck", "stable_audio_dac", "stable_audio_dac_vae", "stable_audio_seanet",
    "solfa_codec", "solfa_24khz",
]  # fmt: skip
SAMPLES = ("mulaw", "linear")
"""Codecs of single samples begin with these."""
WEIGHTED = [name for name in NAMES if not name.startswith((*SAMPLES, "solfa_24khz"))]
"""Those whose weights can be written anew."""
VARIATIONAL = ["oobleck", "ace_step", "stable_audio_oobleck", "stable_audio_dac_vae"]
LENGTHS = (1, 2, 39, 40, 41, 127, 456, 457, 480, 481, 500, 933)
"""Hop 40 where the codec is tiny; chunks of 480 every 456 in the 48 kHz model."""
LENGTHS_OF_OTHERS = (1, 39, 40, 41, 500)
"""For codecs that know of hops only."""


def make(name: str, path: Path) -> str:
    """Write a checkpoint and return the spec that loads it."""
    if name in (*SAMPLES, "solfa_24khz"):
        return name
    if name == "mulaw_stereo":
        return "mulaw:bits=12,sample_rate=22050,num_channels=2"
    if name.startswith("encodec"):
        return str(tiny.make_encodec(path, name.removeprefix("encodec_")))
    if name.startswith("stable_audio"):
        config = getattr(tiny, f"make_{name}")(path)
        return f"{config}:checkpoint={config.parent / 'model.safetensors'}"
    return str(getattr(tiny, f"make_{name}")(path))


def copied(spec: str, folder: Path) -> tuple[str, Path]:
    """Copy a checkpoint, which is quicker than to make another; return the spec that loads it, and its weights."""
    whole = spec.partition(":")[0]
    place = Path(whole) if Path(whole).is_dir() else Path(whole).parent
    shutil.copytree(place, folder / "copy")
    return spec.replace(str(place), str(folder / "copy")), next((folder / "copy").glob("*.safetensors"))


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {name: make(name, tmp_path_factory.mktemp(name) / "checkpoint") for name in NAMES}


@pytest.fixture(scope="module")
def codecs(specs: dict[str, str]) -> dict[str, Codec]:
    return {name: load_codec(spec) for name, spec in specs.items()}


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def codec(name: str, codecs: dict[str, Codec]) -> Codec:
    return codecs[name]


def waveform(codec: Codec, num_samples: int, batch: int = 1, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(batch, codec.num_channels, num_samples, generator=generator)
    return 0.3 * noise * torch.linspace(0.2, 1, num_samples)


def num_frames(name: str, num_samples: int) -> int:
    if name.startswith(SAMPLES):
        return num_samples
    if name == "encodec_48khz":
        starts = range(0, num_samples, 456)
        return sum(-(-(min(start + 480, num_samples) - start) // 40) for start in starts)
    return -(-num_samples // (320 if name == "solfa_24khz" else 40))


def test_properties_agree_with_each_other(codec: Codec) -> None:
    assert codec.frame_rate == codec.sample_rate / codec.hop_length
    if codec.kind == "codes":
        assert codec.num_codebooks is not None and codec.codebook_size is not None and codec.latent_channels is None
    else:
        assert codec.num_codebooks is None and codec.codebook_size is None and codec.latent_channels is not None


def test_every_length_encodes_to_whole_frames_and_decodes_to_itself(name: str, codec: Codec) -> None:
    for num_samples in LENGTHS if name == "encodec_48khz" else LENGTHS_OF_OTHERS:
        audio = waveform(codec, num_samples, batch=2)
        encoded = codec.encode(audio)
        shape = (2, num_frames(name, num_samples), codec.num_codebooks or codec.latent_channels)
        assert encoded.array.shape == shape, num_samples
        assert encoded.num_samples == num_samples
        decoded = codec.decode(encoded)
        assert decoded.shape == audio.shape and decoded.dtype == torch.float32
        assert decoded.isfinite().all(), num_samples


def test_codes_are_integers_in_range_and_latents_are_float32(codec: Codec) -> None:
    array = codec.encode(waveform(codec, 24 * codec.hop_length)).array
    if codec.codebook_size is None:
        assert array.dtype == torch.float32 and array.std() > 0
        return
    assert not array.is_floating_point()
    assert int(array.min()) >= 0 and int(array.max()) < codec.codebook_size
    assert all(len(array[..., codebook].unique()) > 1 for codebook in range(array.shape[-1]))


def test_encoding_twice_gives_the_same_bytes(codec: Codec) -> None:
    audio = waveform(codec, 500)
    first, second = codec.encode(audio), codec.encode(audio)
    assert torch.equal(first.array, second.array)
    assert torch.equal(codec.decode(first), codec.decode(second))


def test_a_batch_equals_its_clips_one_by_one(name: str, specs: dict[str, str]) -> None:
    # In float64, so that what is compared is the structure and not the rounding of differently blocked products.
    codec: Any = in_double(load_codec(specs[name]))
    audio = waveform(codec, 777, batch=5)
    together = codec.encode(audio)
    for place in range(5):
        alone = codec.encode(audio[place : place + 1])
        if codec.kind == "codes":
            assert torch.equal(alone.array[0], together.array[place])
        else:
            torch.testing.assert_close(alone.array[0], together.array[place], rtol=0, atol=1e-6)
        if together.scales is not None:
            torch.testing.assert_close(alone.scales[0], together.scales[place])


def test_only_the_chunked_codec_has_scales(name: str, codec: Codec) -> None:
    scales = codec.encode(waveform(codec, 933, batch=2)).scales
    assert (scales is None) == (name != "encodec_48khz")
    assert scales is None or scales.shape == (2, 3)


@dataclass(frozen=True)
class Stored:
    array: np.ndarray[Any, Any]
    num_samples: int
    scales: np.ndarray[Any, Any] | None


def test_a_stored_clip_decodes_like_the_batch_it_came_from(codec: Codec) -> None:
    encoded = codec.encode(waveform(codec, 933))
    array = encoded.array[0].numpy().astype(np.uint16 if codec.kind == "codes" else np.float16)
    array.flags.writeable = False
    scales = None if encoded.scales is None else encoded.scales[0].numpy()
    decoded = codec.decode(Stored(array, encoded.num_samples, scales))
    assert decoded.shape == (codec.num_channels, 933)
    rounded = torch.from_numpy(array.astype(np.float32)).to(encoded.array.dtype)[None]
    assert torch.equal(decoded, codec.decode(Encoded(rounded, 933, encoded.scales))[0])


def test_the_spec_loads_an_equal_codec(
    name: str, codec: Codec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    again = load_codec(codec.spec)
    assert again.fingerprint == codec.fingerprint and again.spec == codec.spec
    audio = waveform(codec, 100)
    assert torch.equal(again.encode(audio).array, codec.encode(audio).array)


PROGRAM = """
import os, sys, torch, numpy as np
from solfa.codecs.catalogue import load_codec
print(*{"transformers", "diffusers"} & sys.modules.keys(), sep="", flush=True)
from diffusers import AutoencoderOobleck
from transformers import DacModel, EncodecModel, MimiModel
lines = [line.split("\\t") for line in sys.stdin.read().splitlines()]
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
    for spec, audio, out in lines:
        codec = load_codec(spec)
        np.save(out, codec.encode(torch.from_numpy(np.load(audio))).array.numpy())
        print(codec.fingerprint)
else:  # an older processor: which instructions there are is looked up when the first number is computed
    os.environ["ATEN_CPU_CAPABILITY"] = "default"
    print(torch.backends.cpu.get_cpu_capability())
    for spec, _, _ in lines:
        print(load_codec(spec).fingerprint)
"""


@pytest.mark.slow
def test_a_fresh_process_and_another_processor_agree_and_model_libraries_are_loaded_when_needed(
    codecs: dict[str, Codec], tmp_path: Path
) -> None:
    lines = []
    for name, codec in codecs.items():
        np.save(tmp_path / f"{name}.in.npy", waveform(codec, 500).numpy())
        lines.append(f"{codec.spec}\t{tmp_path}/{name}.in.npy\t{tmp_path}/{name}.out.npy")
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(lines),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    fingerprints = [codec.fingerprint for codec in codecs.values()]
    # Libraries that came with the catalogue, then what the other processor says, then the same one.
    assert run.stdout.splitlines() == ["", "DEFAULT", *fingerprints, *fingerprints]
    for name, codec in codecs.items():
        expected = codec.encode(waveform(codec, 500)).array.numpy()
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.out.npy"), expected)


@pytest.mark.parametrize("name", WEIGHTED)
def test_the_fingerprint_follows_the_weights_and_not_their_place(
    name: str, specs: dict[str, str], codec: Codec, tmp_path: Path
) -> None:
    spec, path = copied(specs[name], tmp_path)
    elsewhere = load_codec(spec)
    assert elsewhere.fingerprint == codec.fingerprint and elsewhere.spec != codec.spec
    state = load_file(path)
    state[min(state)].view(-1)[0] += 1e-3
    save_file(state, path, metadata={"format": "pt"})
    other = load_codec(spec)
    assert other.fingerprint != codec.fingerprint
    assert {key for key in codec.description if codec.description[key] != other.description[key]} == {"weights_sha256"}


@pytest.mark.parametrize("name", WEIGHTED)
def test_half_precision_is_another_fingerprint_and_still_encodes(
    name: str, specs: dict[str, str], codec: Codec
) -> None:
    half = load_codec(specs[name], precision="fp16")
    assert half.fingerprint != codec.fingerprint
    assert load_codec(half.spec).fingerprint == half.fingerprint
    encoded = half.encode(waveform(codec, 500))
    assert encoded.array.shape == codec.encode(waveform(codec, 500)).array.shape
    assert half.decode(encoded).shape == (1, codec.num_channels, 500)


@pytest.mark.parametrize("name", [name for name in WEIGHTED if name not in (*VARIATIONAL, "same")])
def test_fewer_codebooks_are_the_first_of_all(name: str, specs: dict[str, str], codec: Codec) -> None:
    # Codes that a beam chooses are chosen for their number.
    nearest = {"beam": 1} if name == "solfa_codec" else {}
    fewer, every = load_codec(specs[name], num_codebooks=2, **nearest), load_codec(specs[name], **nearest)
    audio = waveform(codec, 500)
    assert fewer.num_codebooks == 2 and fewer.fingerprint != every.fingerprint
    assert torch.equal(fewer.encode(audio).array, every.encode(audio).array[..., :2])
    assert fewer.decode(fewer.encode(audio)).shape == audio.shape
    with pytest.raises(ConfigError, match=r"num_codebooks: expected .*found 99"):
        load_codec(specs[name], num_codebooks=99)


@pytest.mark.parametrize("name", VARIATIONAL)
def test_the_scale_is_stored_on_request_beside_the_mean(name: str, specs: dict[str, str], codec: Codec) -> None:
    both = load_codec(specs[name], with_scale=True)
    audio = waveform(codec, 500)
    assert both.latent_channels == 2 * (codec.latent_channels or 0) and both.fingerprint != codec.fingerprint
    encoded = both.encode(audio)
    assert torch.equal(encoded.array[..., : codec.latent_channels], codec.encode(audio).array)
    assert torch.equal(both.decode(encoded), codec.decode(codec.encode(audio)))


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_that_do_not_fit_are_refused_by_name(name: str, specs: dict[str, str], tmp_path: Path) -> None:
    spec, path = copied(specs[name], tmp_path)
    state = load_file(path)
    gone = max(key for key in state if key.startswith("encoder") and key.endswith("bias"))
    changed = min(key for key in state if key.startswith("decoder") and key.endswith("bias"))
    for edit, expected in (
        (lambda tensors: tensors.pop(gone), rf"missing .*{gone.rpartition('.')[0].rpartition('.')[2]}\.bias"),
        (lambda tensors: tensors.update({"encoder.foreign": torch.ones(2)}), r"unexpected .*encoder\.foreign"),
        (lambda tensors: tensors.update({changed: torch.ones(1, 1)}), r"shape.* .*bias \[1, 1\]"),
    ):
        edited = dict(state)
        edit(edited)
        save_file(edited, path, metadata={"format": "pt"})
        with pytest.raises(ConfigError, match=expected):
            load_codec(spec)


def test_audio_with_other_channels_is_refused(codec: Codec) -> None:
    with pytest.raises(ConfigError, match=r"expected audio \[B, \d, N >= 1\], found \[1, 3, 50\]"):
        codec.encode(torch.zeros(1, 3, 50))


def test_unknown_options_are_refused_with_the_nearest(name: str, specs: dict[str, str]) -> None:
    option, meant = ("bit", "bits") if name.startswith(SAMPLES) else ("num_codebook", "num_codebooks")
    option, meant = ("with_scales", "with_scale") if name in VARIATIONAL else (option, meant)
    # One has no options at all.
    expected = f"{option}: " if name == "same" else rf"{option}: .*did you mean '{meant}'"
    with pytest.raises(ConfigError, match=expected):
        load_codec(specs[name], **{option: 8})


def test_decoding_takes_any_integer_dtype(codec: Codec) -> None:
    encoded = codec.encode(waveform(codec, 100))
    if codec.kind == "codes":
        narrow = Encoded(encoded.array.to(torch.int32), encoded.num_samples, encoded.scales)
        assert torch.equal(codec.decode(narrow), codec.decode(encoded))
