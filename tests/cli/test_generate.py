"""`solfa generate` as a user types it: clips, pictures and metadata from trained experiments."""

import json
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from numpy.typing import NDArray
from torch import nn

import solfa
from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.generate.model import Model, build_model, load_model
from solfa.nn.linears.half import HalfLinear
from solfa.nn.linears.int8 import Int8Linear
from solfa.solvers.experiment import Experiment
from solfa.solvers.tasks.lm import LMConfig, LMSolver
from tests.cli.conftest import SolfaMain
from tests.conftest import write_tone
from tests.models.conditioners.tiny_encoders import write_t5

RATE = 2000
CODEC = f"mulaw:bits=4,sample_rate={RATE}"
RECORDINGS = [("a slow piano", "jazz", 70), ("a loud drum", "folk", 120), ("a fast song", "jazz", 180)]


@pytest.fixture(scope="module")
def dora_dir(quiet_process: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trained experiments: `1abe1000` has labels and numbers, `7e870000` captions."""
    folder = tmp_path_factory.mktemp("dora")
    for index, (caption, genre, bpm) in enumerate(RECORDINGS):
        write_tone(folder / f"audio/{index}.wav", 0.3, RATE, hz=100.0 + 70 * index)
        (folder / f"audio/{index}.json").write_text(json.dumps({"caption": caption, "genre": genre, "bpm": bpm}))
    solfa.encode(folder / "audio", folder / "tones.solfa", codec=solfa.load_codec(CODEC))
    labels = {"kind": "labels", "source": "genre", "fuse": "sum"}
    number = {"kind": "number", "source": "bpm", "min": 60, "max": 200}
    train(folder / "xps/1abe1000", folder / "tones.solfa", {"genre": labels, "bpm": number})
    text = {"kind": "text", "encoder": str(write_t5(folder / "t5"))}
    train(folder / "xps/7e870000", folder / "tones.solfa", {"description": text})
    return folder


def train(folder: Path, dataset: Path, conditioners: dict[str, Any]) -> None:
    values = {
        "solver": "lm",
        "device": "cpu",
        "dset": {"train": str(dataset), "valid": str(dataset)},
        "dataset": {"segment_seconds": 0.02, "batch_size": 3},
        "model": {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32},
        "conditioner": {"conditioners": conditioners, "guidance_dropout": 0.1},
        "optim": {"epochs": 1, "updates_per_epoch": 10, "optimizer": {"kind": "adamw", "lr": 0.02}},
        "generate": {"sampling": {"guidance_scale": 4.0}},
        "logging": {"tensorboard": False},
    }
    cfg = parse_config(LMConfig, values, "test")
    LMSolver(cfg, Experiment(folder, folder.name)).run()
    (folder / "config.json").write_text(json.dumps(cfg.model_dump(mode="json")))


@pytest.fixture
def generate(dora_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solfa_main: SolfaMain) -> SolfaMain:
    """SolfaMain the command with clips of 20 ms into `tmp_path/out`; return exit code and output."""
    monkeypatch.setenv("SOLFA_DORA_DIR", str(dora_dir))

    def run(*arguments: object, out: str = "out", seconds: object = 0.02) -> tuple[int, str]:
        return solfa_main("generate", *arguments, "--out", tmp_path / out, "--seconds", seconds)

    return run


def audio(path: Path) -> NDArray[np.float32]:
    samples, rate = soundfile.read(path, dtype="float32")
    assert rate == RATE
    return samples


def about(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_clips_come_with_pictures_and_what_they_were_made_from(generate: SolfaMain, tmp_path: Path) -> None:
    code, output = generate("1abe1000", "--set", "genre=jazz", "--set", "bpm=90", "--num", 2, "--seed", 5, "--top-k", 9)
    assert code == 0 and output.split() == f"2 clips in {tmp_path}/out".split()
    assert names(tmp_path / "out") == [f"clip-00{n}.{kind}" for n in (0, 1) for kind in ("json", "png", "wav")]
    for number in (0, 1):
        path = tmp_path / f"out/clip-00{number}.wav"
        assert audio(path).shape == (40,)
        found = about(path)
        assert (found["name"], found["seconds"], found["sample_rate"], found["channels"]) == (path.stem, 0.02, RATE, 1)
        assert found["metadata"]["seed"] == 5 + number
        assert found["metadata"]["conditions"] == {"genre": "jazz", "bpm": 90}
        assert found["metadata"]["codec"].startswith("mulaw:")
        assert found["metadata"]["sampling"]["top_k"] == 9
        assert found["metadata"]["sampling"]["guidance_scale"] == 4.0, "what is not said is as the experiment says"


def test_the_nearest_training_clip_is_named(generate: SolfaMain, dora_dir: Path, tmp_path: Path) -> None:
    arguments = ("1abe1000", "--set", "genre=jazz", "--set", "bpm=90", "--nearest")
    code, output = generate(*arguments)
    assert code == 2 and "trained on" in output and not (tmp_path / "out").exists()
    note = dora_dir / "xps/1abe1000/.prepared.json"
    dset = {"train": str(dora_dir / "tones.solfa"), "valid": str(dora_dir / "tones.solfa")}
    note.write_text(json.dumps({"start": "", "dset": dset}))
    try:
        code, output = generate(*arguments)
    finally:
        note.unlink()
    assert code == 0 and "like no training clip" in output  # 20 ms are too short to be like anything
    assert about(tmp_path / "out/clip-000.wav")["nearest"] is None


def test_the_same_command_writes_the_same_bytes_and_says_what_made_them(generate: SolfaMain, tmp_path: Path) -> None:
    for out in ("first", "second"):
        assert generate("1abe1000", "--set", "genre=jazz", "--seed", 5, out=out)[0] == 0
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()
    found = about(tmp_path / "first/clip-000.wav")["provenance"]
    assert (found["experiment"], found["epoch"], found["weights"], found["device"]) == ("1abe1000", 1, "fp32", "cpu")
    assert (
        found["solfa"] == solfa.__version__ and found["host"] == platform.node() and len(found["weights_sha256"]) == 64
    )
    assert found["codec_fingerprint"] == solfa.load_codec(CODEC).fingerprint
    assert set(found["data"]) == {"digest", "fingerprint", "codec"}


def test_a_clip_with_the_same_seed_is_the_same_alone_and_among_others(generate: SolfaMain, tmp_path: Path) -> None:
    assert generate("1abe1000", "--num", 4, "--seed", 3, out="many")[0] == 0
    assert generate("1abe", "--seed", 5, out="one")[0] == 0
    clips = [audio(tmp_path / f"many/clip-00{number}.wav").tobytes() for number in range(4)]
    assert len(set(clips)) == 4
    assert audio(tmp_path / "one/clip-000.wav").tobytes() == clips[2]


def test_conditions_change_what_is_generated(generate: SolfaMain, tmp_path: Path) -> None:
    rows = [{"genre": "jazz"}, {"genre": "folk"}, {"bpm": 70}, {"bpm": 180}, {}]
    lines = [json.dumps({"name": str(number), "seed": 1, **row}) for number, row in enumerate(rows)]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    assert generate("1abe1000", "--captions", tmp_path / "rows.jsonl", "--guidance", 20)[0] == 0
    assert len({audio(path).tobytes() for path in (tmp_path / "out").glob("*.wav")}) == 5


@pytest.mark.parametrize("experiment", ["//sig/7e870000", "FOLDER"])
def test_a_text_names_the_clips_and_conditions_them(
    generate: SolfaMain, experiment: str, dora_dir: Path, tmp_path: Path
) -> None:
    place = str(dora_dir / "xps/7e870000") if experiment == "FOLDER" else experiment
    code, _ = generate(place, "--text", "A loud (!) drum, with the rain of the song")
    (path,) = (tmp_path / "out").glob("*.wav")
    assert code == 0 and path.name == "a-loud-drum-with-the-rain-000.wav"
    assert about(path)["metadata"]["conditions"] == {"description": "A loud (!) drum, with the rain of the song"}


def test_captions_of_a_text_file_become_clips(generate: SolfaMain, tmp_path: Path) -> None:
    (tmp_path / "captions.txt").write_text("a slow piano\n\na loud drum\n")
    assert generate("7e87", "--captions", tmp_path / "captions.txt", "--seed", 2)[0] == 0
    found = {path.stem: about(path)["metadata"] for path in (tmp_path / "out").glob("*.wav")}
    assert {name: (one["seed"], one["conditions"]["description"]) for name, one in found.items()} == {
        "0000": (2, "a slow piano"),
        "0001": (3, "a loud drum"),
    }
    assert generate("7e87", "--text", "a loud drum", "--seed", 3, out="alone")[0] == 0
    alone = audio(tmp_path / "alone/a-loud-drum-000.wav")
    assert audio(tmp_path / "out/0001.wav").tobytes() == alone.tobytes()


def test_columns_of_a_table_are_conditions_and_each_row_may_be_taken_several_times(
    generate: SolfaMain, tmp_path: Path
) -> None:
    (tmp_path / "c.csv").write_text("name,genre,bpm,seconds,seed\nx/y,folk,90,0.03,\nz,,,,40\n")
    code, _ = generate("1abe1000", "--captions", tmp_path / "c.csv", "--set", "genre=jazz", "--num", 2)
    assert code == 0
    found = {about(path)["name"]: about(path) for path in (tmp_path / "out").glob("*.wav")}
    assert {name: (one["seconds"], one["metadata"]["seed"]) for name, one in found.items()} == {
        "x/y-0": (0.03, 0),
        "x/y-1": (0.03, 2),
        "z-0": (0.02, 40),
        "z-1": (0.02, 42),
    }
    assert found["x/y-0"]["metadata"]["conditions"] == {"genre": "folk", "bpm": "90"}
    assert found["z-0"]["metadata"]["conditions"] == {"genre": "jazz"}


def test_json_lines_are_read_too(generate: SolfaMain, tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"genre": "folk", "bpm": 120, "name": "a"}\n{"seconds": 0.01}\n')
    assert generate("1abe1000", "--captions", tmp_path / "c.jsonl")[0] == 0
    assert about(tmp_path / "out/a.wav")["metadata"]["conditions"] == {"genre": "folk", "bpm": 120}
    assert audio(tmp_path / "out/0001.wav").shape == (20,)


def test_a_clip_begins_with_the_codes_of_its_prompt(generate: SolfaMain, tmp_path: Path) -> None:
    prompt = write_tone(tmp_path / "riff.wav", 0.1, RATE, hz=200.0)
    assert generate("1abe1000", "--prompt", prompt, "--prompt-seconds", 0.01, "--num", 2)[0] == 0
    codec = solfa.load_codec(CODEC)

    def codes(samples: NDArray[np.float32]) -> list[int]:
        return codec.encode(torch.from_numpy(samples)[None, None]).array.flatten().tolist()

    wanted = codes(audio(prompt)[:20])
    clips = [codes(audio(tmp_path / f"out/clip-00{number}.wav")) for number in (0, 1)]
    assert [len(clip) for clip in clips] == [40, 40]
    assert [clip[:20] for clip in clips] == [wanted, wanted]
    assert clips[0][20:] != clips[1][20:]
    assert about(tmp_path / "out/clip-000.wav")["metadata"]["prompt_seconds"] == 0.01


def test_flac_holds_what_wav_holds(generate: SolfaMain, tmp_path: Path) -> None:
    assert generate("1abe1000", "--format", "flac", out="flac")[0] == 0
    assert generate("1abe1000", out="wav")[0] == 0
    assert names(tmp_path / "flac") == ["clip-000.flac", "clip-000.json", "clip-000.png"]
    np.testing.assert_allclose(audio(tmp_path / "flac/clip-000.flac"), audio(tmp_path / "wav/clip-000.wav"), atol=1e-6)


@pytest.mark.parametrize(
    ("weights", "linear", "nats_per_code"), [("fp16", HalfLinear, 1e-3), ("int8", Int8Linear, 0.1)]
)
def test_weights_of_fewer_bits_are_used_and_find_a_clip_nearly_as_probable(
    generate: SolfaMain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    weights: str,
    linear: type[nn.Module],
    nats_per_code: float,
) -> None:
    models: list[Model] = []

    def build_and_keep(*arguments: Any, **options: Any) -> Model:
        models.append(build_model(*arguments, **options))
        return models[-1]

    monkeypatch.setattr("solfa.generate.model.build_model", build_and_keep)
    assert generate("1abe1000", "--weights", weights, out=weights)[0] == 0
    assert generate("1abe1000", out="fp32")[0] == 0
    fewer, fp32 = models
    assert [any(isinstance(part, linear) for part in model.generator.network.modules()) for model in models] == [
        True,
        False,
    ]
    clip = tmp_path / "fp32/clip-000.wav"
    assert 0 < abs(fewer.log_prob(clip) - fp32.log_prob(clip)) / len(audio(clip)) < nats_per_code


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--temperature", "-1"], "--temperature: .*greater than or equal to 0"),
        (["--temperature", "nan"], "--temperature: .*"),
        (["--top-p", "7"], "--top-p: .*less than or equal to 1"),
        (["--guidance", "-2"], "--guidance: "),
        (["--reject-lowest", "0.5"], "--reject-lowest: .*leave it out"),
        (["--prompt", "DORA/t5/config.json"], r"config\.json: .*decode"),
        (["--seconds", "1e12"], r"--seconds: .*1,000,000,000,000 s: .*24,000 TB of memory"),
        (["--out", "/proc/nowhere/out"], "/proc/nowhere/out: cannot be written to.*--out"),
        (["--out", "DORA/audio/0.wav/out"], "cannot be written to.*--out"),
    ],
)
def test_what_cannot_work_is_refused_before_a_model_is_built(
    arguments: list[str],
    words: str,
    dora_dir: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    solfa_main: SolfaMain,
) -> None:
    def refuse(*arguments: Any, **options: Any) -> Model:
        raise AssertionError("a model was built")

    monkeypatch.setenv("SOLFA_DORA_DIR", str(dora_dir))
    monkeypatch.setattr("solfa.generate.model.build_model", refuse)
    monkeypatch.chdir(tmp_path)
    code, output = solfa_main("generate", "1abe1000", *(text.replace("DORA", str(dora_dir)) for text in arguments))
    assert code == 2 and re.search(words, output), output
    assert not list(tmp_path.iterdir())


def test_a_clip_that_takes_more_memory_than_there_is_gets_a_sentence(dora_dir: Path) -> None:
    model = load_model(dora_dir / "xps/1abe1000", device="cpu")
    with pytest.raises(ConfigError, match=r"seconds.*would take .*TB of memory"):
        model.generate(seconds=1e15)


def test_clips_that_are_there_are_replaced_only_when_asked(generate: SolfaMain, tmp_path: Path) -> None:
    assert generate("1abe1000", "--seed", 1)[0] == 0
    path = tmp_path / "out/clip-000.wav"
    before = path.read_bytes(), path.with_suffix(".json").read_bytes()
    for other in ((), ("--format", "flac")):
        code, output = generate("1abe1000", "--seed", 2, *other)
        assert code == 2 and re.search(r"clip-000\.\w+ .*--out .*--overwrite", output)
        assert (path.read_bytes(), path.with_suffix(".json").read_bytes()) == before
        assert len(names(tmp_path / "out")) == 3
    assert generate("1abe1000", "--seed", 2, "--overwrite")[0] == 0
    assert path.read_bytes() != before[0] and about(path)["metadata"]["seed"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody"], "nobody: .*DORA/xps.*(1abe1000|7e870000)"),
        (["1abe1001"], "1abe1001: .*DORA/xps.*1abe1000"),
        (["1abe1000", "--set", "gnre=x"], r"--set: .*'gnre'.*did you mean 'genre'\?"),
        (["1abe1000", "--set", "genre"], "--set: expected NAME=VALUE, found 'genre'"),
        (["1abe1000", "--set", "=jazz"], "--set: expected NAME=VALUE, found '=jazz'"),
        (["1abe1000", "--set", "genre=[a"], r"--set: expected NAME=VALUE .*YAML.*'genre=\[a'"),
        (["1abe1000", "--text", "rain"], r"--text: .*genre, bpm.*--set"),
        (["7e87", "--set", "description=3"], "'caption': expected a text .*found 3"),
        (["1abe1000", "--prompt", "DORA/audio/0.wav"], r"DORA/audio/0\.wav: .*prompt.* 0\.30 s"),
        (["1abe1000", "--prompt", "DORA/gone.wav"], r"DORA/gone\.wav: no such file"),
        (["1abe1000", "--prompt", "DORA/t5/config.json"], r"DORA/t5/config\.json: .*decode"),
        (["1abe1000", "--prompt-seconds", "1"], "--prompt-seconds needs a --prompt"),
        (["1abe1000", "--prompt", "DORA/audio/0.wav", "--prompt-seconds", "-1"], "--prompt-seconds above 0"),
        (["1abe1000", "--captions", "DORA/gone.csv"], r"DORA/gone\.csv: no such file"),
        (["1abe1000", "--captions", "DORA/t5/config.json"], r"captions.*\.txt, \.csv or \.jsonl.*found \.json"),
        (["7e87", "--captions", "x.txt", "--text", "x"], "--captions.*--text.*found both"),
        (["1abe1000", "--weights", "int2"], r"--weights: .*did you mean 'int\d'\?"),
        (["1abe1000", "--format", "mp3"], "--format: expected wav or flac or ogg, found 'mp3'"),
        (["1abe1000", "--device", "tpu"], "device.*tpu"),
        (["1abe1000", "--top-p", "2"], r"--top-p: .*less than or equal to 1.*found 2\.0"),
        (["1abe1000", "--guidance", "-1"], r"--guidance: .*found -1\.0"),
        (["1abe1000", "--reject-lowest", "0.1"], r"--reject-lowest: .*leave it out"),
        (["1abe1000", "--codec", "mulaw:bits=8"], r"expected 1 codebooks? of 16\b.*found .*256\b.*codec"),
        (["1abe1000", "--stream"], r"--stream: expected a model .*\blm\b"),
        (["1abe1000", "--semantics", "exact"], r"--semantics: .*\blm\b.*found exact"),
        (["1abe1000", "--semantics", "exat"], r"--semantics: .*did you mean 'exact'\?"),
        (["1abe1000", "--seed", "9223372036854775808"], "--seed from 0 to 9223372036854775807"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_sentence_and_exit_code_2(
    arguments: list[str], words: str, generate: SolfaMain, dora_dir: Path, tmp_path: Path
) -> None:
    code, output = generate(*(argument.replace("DORA", str(dora_dir)) for argument in arguments))
    assert code == 2
    assert output.startswith("solfa: ") and "Traceback" not in output
    assert re.search(words.replace("DORA", str(dora_dir)), output)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [("inf", "--seconds above 0, found inf"), ("nan", "'--seconds'|--seconds.*found nan"), ("0", "'--seconds'")],
)
def test_a_length_that_is_no_length_is_refused(seconds: str, words: str, generate: SolfaMain) -> None:
    code, output = generate("1abe1000", seconds=seconds)
    assert code == 2 and re.search(words, output) and "Traceback" not in output


def test_a_file_where_the_clips_should_go_is_refused(generate: SolfaMain, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    code, output = generate("1abe1000")
    assert code == 2 and re.search(f"--out: .*folder.*{tmp_path}/out", output)
    assert (tmp_path / "out").read_text() == "mine"


def test_an_experiment_that_was_not_trained_is_refused(generate: SolfaMain, tmp_path: Path) -> None:
    (tmp_path / "xp").mkdir()
    (tmp_path / "xp/.argv.json").write_text("[]")
    code, output = generate(tmp_path / "xp")
    assert code == 2 and "config.json" in output
