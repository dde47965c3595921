"""`solfa pre-encode` as it is typed: flags, YAML and overrides, and the sentences of its faults."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from solfa.cli.main import app, main
from solfa.cli.pre_encode import BASE, compose
from solfa.encoding.pre_encode.config import parse_pre_encode
from solfa.errors import ConfigError


@pytest.fixture
def dataset(audio_folder, tmp_path) -> Path:
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"dataset_type": "audio_dir", "datasets": [{"id": "x", "path": str(audio_folder)}]}))
    return path


def invoke(*arguments):
    return CliRunner().invoke(app, ["pre-encode", *map(str, arguments)], env={"COLUMNS": "200"})


def test_flags_and_yaml_write_the_same_items(dataset, tmp_path):
    flags = ["--pretrained-name", "mulaw", "--is-discrete", "--dataset_config", dataset, "--sample-size", 32000]
    result = invoke(*flags, "--output-path", tmp_path / "flags", "--batch_size", 4, "--num-workers", 0)
    assert result.exit_code == 0, result.output
    assert "items" in result.output and "12 (12 in this run)" in result.output and "real time" in result.output
    own = tmp_path / "own.yaml"
    own.write_text(f"pretrained_name: mulaw\nis_discrete: true\nnum_workers: 0\ndataset_config: {dataset}\n")
    overrides = [f"output_path={tmp_path / 'yaml'}", "batch_size=4", "sample_size=1000"]
    result = invoke("--config", own, *overrides, "--sample-size", 32000)  # a flag comes on top
    assert result.exit_code == 0, result.output
    names = sorted(path.name for path in (tmp_path / "flags/0").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "yaml/0").iterdir())
    for name in names:
        assert (tmp_path / "flags/0" / name).read_bytes() == (tmp_path / "yaml/0" / name).read_bytes()
    assert np.load(tmp_path / "yaml/silence.npy").shape == (1, 1, 32000)
    assert "nothing to do" in invoke("--config", own, *overrides, "--sample-size", 32000).output


def test_the_packaged_yaml_holds_every_setting_with_its_default():
    required = {"dataset_config": "d.json", "output_path": "o", "pretrained_name": "mulaw"}
    composed = compose(None, [f"{key}={value}" for key, value in required.items()])
    assert parse_pre_encode(composed) == parse_pre_encode(required)
    assert composed.keys() == parse_pre_encode(required).as_args().keys()


def test_a_file_of_ones_own_may_build_on_the_packaged_one(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("defaults: [base, _self_]\nbatch_size: 3\noutput_path: out_${batch_size}\n")
    composed = compose(path, ["batch_size=5"])
    assert (composed["batch_size"], composed["output_path"], composed["sample_size"]) == (5, "out_5", 1320960)
    assert "dataset_config" not in composed


def test_groups_set_what_their_files_say_and_single_values_come_on_top(tmp_path, monkeypatch):
    own = tmp_path / "it's/pre_encode"
    files = {
        "model/oob": "model_config: m.json\nckpt_path: m.ckpt\nbatch_size: 7\n",
        "dataset/mine": "# @package _global_\ndataset_config: mine.json\nsample_size: 2000\n",
    }
    for name, text in files.items():
        (own / name).parent.mkdir(parents=True)
        (own / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("SOLFA_SEARCH_PATH", str(own.parent))
    composed = compose(None, ["sample_size=3000", "model=oob", "dataset=mine", "output_path=o"])
    settings = parse_pre_encode(composed)
    assert (str(settings.model_config_path), str(settings.ckpt_path)) == ("m.json", "m.ckpt")
    assert (str(settings.dataset_config), settings.batch_size, settings.sample_size) == ("mine.json", 7, 3000)
    file = tmp_path / "file.yaml"
    file.write_text("num_workers: 0\noutput_path: o\n")
    settings = parse_pre_encode(compose(file, ["model=dac_44khz", "+dataset=mine"]))
    assert (settings.pretrained_name, settings.is_discrete, settings.num_workers) == ("dac_44khz", True, 0)


@pytest.mark.parametrize("path", sorted(BASE.parent.glob("model/*.yaml")), ids=lambda path: path.stem)
def test_every_packaged_model_makes_valid_settings(path):
    assert parse_pre_encode(compose(None, [f"model={path.stem}", "dataset=here", "output_path=o"]))


def test_other_names_of_settings_mean_the_same_and_not_both(tmp_path):
    names = {"model_config_path": "m.json", "ckpt_path": "c", "dataset_config_path": "d.json", "output_path": "o"}
    expected = parse_pre_encode(
        {"model_config": "m.json", "ckpt_path": "c", "dataset_config": "d.json", "output_path": "o"}
    )
    assert parse_pre_encode(names) == expected
    assert parse_pre_encode(compose(None, [f"{key}={value}" for key, value in names.items()])) == expected
    with pytest.raises(ConfigError, match="model_config: given twice"):
        parse_pre_encode({**names, "model_config": "other.json"})


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("model=dac_44kh", "did you mean 'dac_44khz'?"),
        ("model=mimi", "pretrained_name=mimi"),
        ("dataset=oob", "pre_encode/dataset/NAME.yaml"),
        ("batchsize=4", "did you mean 'batch_size'?"),
        ("+sample_sise=4", "did you mean 'sample_size'?"),
        ("batch_size", "expected KEY=VALUE"),
        ("batch_size=1,2", "Ambiguous value"),
    ],
)
def test_a_mistyped_override_is_answered_with_the_nearest_key(override, words):
    with pytest.raises(ConfigError, match=re.escape(words)):
        compose(None, [override])


def test_a_mistyped_key_in_a_file_and_a_file_that_is_not_there_are_named(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("batchsize: 3\n")
    with pytest.raises(ConfigError, match="did you mean 'batch_size'"):
        parse_pre_encode(compose(path, []))
    with pytest.raises(ConfigError, match=r"\.yaml file.*none\.yaml"):
        compose(tmp_path / "none.yaml", [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["batch_siez=4"], "did you mean 'batch_size'?"),
        (["--pretrained-name", "mulaw"], "dataset_config: missing; output_path: missing"),
        (["--model-config-path", "m.json", "--dataset-config-path", "d.json", "--output-path", "o"], "ckpt_path"),
    ],
)
def test_faults_of_the_command_line_end_with_two(arguments, words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["solfa", "pre-encode", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    said = capsys.readouterr().err.strip()
    assert said.startswith("solfa: ") and words in said and "\n" not in said


def test_help_shows_an_example_the_defaults_and_the_better_way():
    text = " ".join(invoke("--help").output.split())
    for expected in ("solfa pre-encode --model-config", "solfa encode", "solfa import"):
        assert expected in text
    for name, default in (("sample-size", "1320960"), ("num-workers", "4"), ("batch-size", "1"), ("strategy", "auto")):
        assert re.search(rf"--{name} .*?\[default: \({default}\)\]", text)
    assert BASE.is_file()


def test_code_that_a_dataset_json_names_runs_only_with_the_flag(audio_folder, tmp_path, solfa_main):
    (tmp_path / "describe.py").write_text("def get_custom_metadata(info, audio):\n    return {'prompt': 'I ran'}\n")
    entry = {"id": "x", "path": str(audio_folder / "voice"), "custom_metadata_module": "describe.py"}
    data, out = tmp_path / "data.json", tmp_path / "out"
    data.write_text(json.dumps({"dataset_type": "audio_dir", "datasets": [entry]}))
    own = tmp_path / "own.yaml"
    own.write_text("pretrained_name: mulaw\nis_discrete: true\nnum_workers: 0\nsample_size: 8000\n")
    typed = ("pre-encode", "--config", own, f"dataset_config={data}", f"output_path={out}")
    code, output = solfa_main(*typed)
    assert code == 2 and str(tmp_path / "describe.py") in output and "--trust-code" in output
    own.write_text(own.read_text() + "trust_code: true\n")
    assert solfa_main(*typed)[0] == 2 and not out.exists()
    own.write_text(own.read_text().replace("trust_code: true\n", ""))
    code, output = solfa_main(*typed, "--trust-code")
    assert code == 0, output
    assert all(json.loads(path.read_text())["prompt"] == "I ran" for path in (out / "0").glob("*.json"))


@pytest.mark.parametrize("command", [("encode", "DATA", "OUT"), ("import", "ARRAYS", "OUT", "--source", "DATA")])
def test_no_other_command_runs_it_without_the_flag_either(command, audio_folder, tmp_path, solfa_main):
    (tmp_path / "evil.py").write_text("raise SystemExit('I ran')\n")
    entry = {"id": "x", "path": str(audio_folder), "custom_metadata_module": "evil.py"}
    (tmp_path / "data.json").write_text(json.dumps({"dataset_type": "audio_dir", "datasets": [entry]}))
    (tmp_path / "arrays").mkdir()
    np.save(tmp_path / "arrays/a.npy", np.zeros((8, 1), np.int64))
    places = {"DATA": tmp_path / "data.json", "OUT": tmp_path / "out", "ARRAYS": tmp_path / "arrays"}
    code, output = solfa_main(*(places.get(word, word) for word in command), "--codec", "mulaw")
    assert code == 2 and str(tmp_path / "evil.py") in output and "--trust-code" in output
    assert not (tmp_path / "out").exists()
