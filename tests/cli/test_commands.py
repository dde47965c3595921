"""The commands as a user types them: results on the screen, one sentence for bad input, the right exit codes."""

import re
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import solfa
from solfa.cli.main import app
from solfa.codecs.catalogue import NAMES
from solfa.codecs.default_name import ABOUT_DEFAULT_CODEC, ABOUT_SCALES, DEFAULT_CODEC, FOR_FULL_BAND, FOR_STEREO
from solfa.encoding.fingerprint import EncodeSettings, dataset_info
from solfa.store.array_dataset import append_arrays
from solfa.store.planned_clip import PlannedClip
from solfa.store.shard_writer import Outcome
from tests.conftest import write_tone

runner = CliRunner()
ONE_ENCODER = ("--num-encoders", 1, "--num-workers", 0)


@pytest.fixture(scope="module")
def pristine_dataset(pristine_audio, tmp_path_factory):
    """A finished dataset of nine clips and one failed one; not to be changed."""
    folder = tmp_path_factory.mktemp("pristine")
    source = shutil.copytree(pristine_audio, folder / "audio")
    (source / "broken.wav").write_bytes(b"nothing")
    solfa.encode(source, folder / "music.solfa", codec=solfa.load_codec("mulaw"))
    return folder / "music.solfa"


@pytest.fixture
def dataset(pristine_dataset, tmp_path):
    """A copy of it to do anything with."""
    return shutil.copytree(pristine_dataset, tmp_path / "music.solfa")


HEAVY = {"torch", "numpy", "pyarrow", "transformers", "soundfile", "hydra"}


def help_in_a_fresh_process(*command: str) -> tuple[str, set[str]]:
    """Ask for help; return it with the modules that were imported for it."""
    script = (
        f"import sys; sys.argv = {['solfa', *command, '--help']}\n"
        "from solfa.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('IMPORTED', *sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    shown, _, imported = run.stdout.rpartition("IMPORTED")
    return shown, set(imported.split())


def test_help_answers_without_importing_anything_heavy():
    shown, imported = help_in_a_fresh_process()
    assert not imported & {*HEAVY, "pydantic"}
    for command in ("demo", "encode", "pre-encode", "status", "verify", "gc", "inspect", "decode", "export", "import"):
        assert command in shown


@pytest.mark.parametrize("command", ["demo", "encode"])
def test_help_of_a_command_names_the_default_codec_without_loading_it(command):
    shown, imported = help_in_a_fresh_process(command)
    assert not imported & HEAVY  # typer itself imports pydantic
    assert DEFAULT_CODEC in shown


@pytest.mark.parametrize(
    "command",
    ["demo", "encode", "pre-encode", "status", "verify", "gc", "inspect", "decode", "export", "import", "doctor"],
)
def test_every_command_has_help_with_an_example(command):
    result = runner.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"solfa {command}" in result.output.replace("root " + command, "")
    assert "Example" in result.output


@pytest.mark.parametrize("advice", [ABOUT_DEFAULT_CODEC, ABOUT_SCALES, FOR_STEREO, FOR_FULL_BAND])
def test_codecs_that_are_recommended_exist(advice):
    named = re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b|\bmimi\b", advice)
    assert named and set(named) <= set(NAMES)


def test_version_is_told(solfa_main):
    assert solfa_main("--version") == (0, f"solfa {solfa.__version__}\n")


@pytest.mark.slow
def test_encode_reports_what_it_did_and_why_clips_failed(audio_folder, tmp_path, solfa_main):
    (audio_folder / "broken.wav").write_bytes(b"nothing")
    (audio_folder / "voice/a.json").write_text("{")
    code, output = solfa_main("encode", audio_folder, tmp_path / "d.solfa", "--codec", "mulaw", *ONE_ENCODER)
    assert code == 0, output
    assert re.search(r"clips\s+9 \(10 tried in this run\)", output)
    assert re.search(r"failed\s+1", output)
    assert "failed broken.wav: " in output
    assert re.search("resampled .*1 from 44.1 kHz", output) and re.search("mixed down .*1 recording to mono", output)
    assert re.search(r"voice/a\.wav: \.json: not a JSON object", output), "a side-car that cannot be read"
    assert f"solfa inspect {tmp_path / 'd.solfa'}" in output, "what to do next"


@pytest.mark.slow
def test_after_encoding_latents_a_model_of_latents_is_named(solfa_main, audio_folder, tmp_path):
    small, latents = ("--limit", 1, "--num-encoders", 1, "--num-workers", 0), "solfa_24khz:latents=true"
    _, output = solfa_main("encode", audio_folder, tmp_path / "d.solfa", "--codec", latents, *small)
    assert re.search(r"solfa train solver=flow/base\s+dset.train=", output)
    _, output = solfa_main("encode", audio_folder, tmp_path / "c.solfa", "--codec", "mulaw", *small)
    assert re.search(r"solfa train\s+dset.train=", output)


@pytest.mark.slow
def test_a_run_that_only_adds_a_failed_recording_tells_no_speed_of_zero(tmp_path, solfa_main):
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "broken.wav").write_bytes(b"nothing")
    code, output = solfa_main("encode", tmp_path / "only", tmp_path / "d.solfa", "--codec", "mulaw", *ONE_ENCODER)
    assert code == 1 and "0.0x" not in output and "failed broken.wav" in output


def test_status_counts_recordings_that_failed(tmp_path, solfa_main):
    clips = [PlannedClip(f"long.ogg@{start}", "long.ogg", "long.ogg") for start in range(3)]
    info = dataset_info(solfa.load_codec("mulaw"), EncodeSettings())
    append_arrays(tmp_path / "d.solfa", info, [Outcome(clip, error="gone") for clip in clips], {})
    code, output = solfa_main("status", tmp_path / "d.solfa")
    assert code == 0 and re.search(r"failed\s+1 recording \(3 clips\)", output)
    assert output.count("gone") == 1 and "long.ogg (3 clips): gone" in output


@pytest.mark.slow
def test_failed_clips_are_counted_by_status_and_tried_again_when_asked(dataset, audio_folder, solfa_main):
    assert re.search(r"1 failed clip .*--retry-failed", solfa_main("status", dataset)[1])
    write_tone(audio_folder / "broken.wav", 0.2, 8000)
    assert solfa_main("encode", audio_folder, dataset, "--retry-failed", *ONE_ENCODER)[0] == 0
    assert "retry" not in solfa_main("status", dataset)[1]


def test_status_verify_and_gc_of_a_finished_dataset(dataset, solfa_main):
    code, output = solfa_main("status", dataset)
    assert code == 0 and "finished" in output and re.search("9 stored.* 1 failed.* 10 planned", output)
    assert "failed broken.wav" in output
    code, output = solfa_main("verify", dataset)
    assert code == 0 and re.search("intact.* 9 clips.* 1 shard", output)
    (dataset / ".tmp").mkdir(exist_ok=True)
    (dataset / ".tmp" / "data-00000.1.abcd").write_text("left behind")
    assert "1 file would be" in solfa_main("gc", dataset, "--dry-run")[1]
    assert (dataset / ".tmp" / "data-00000.1.abcd").exists()
    assert "1 file removed" in solfa_main("gc", dataset)[1]
    assert not (dataset / ".tmp").exists()


def test_verify_exits_with_one_and_names_the_damaged_file(dataset, solfa_main):
    (data,) = (dataset / "data").iterdir()
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.chmod(0o644)
    data.write_bytes(content)
    code, output = solfa_main("verify", dataset)
    assert code == 1
    assert f"data/{data.name}: damaged" in output and "1 problem" in output


def test_verify_restores_a_manifest_and_says_what_a_damaged_shard_needs(dataset, solfa_main):
    (manifest,), (data,) = (dataset / "manifest").iterdir(), (dataset / "data").iterdir()
    sound = manifest.read_bytes()
    manifest.write_bytes(sound[:40])
    data.unlink()
    code, output = solfa_main("verify", dataset, "--repair")
    assert code == 1
    assert "manifest/000001.json: rebuilt" in output and "1 file repaired" in output
    assert re.search(rf"data/{data.name}: missing.*not repaired.*--source", output) and "1 problem" in output
    assert manifest.read_bytes() == sound


def test_what_is_for_repairing_is_refused_without_it(dataset, solfa_main):
    code, output = solfa_main("verify", dataset, "--source", "audio")
    assert code == 2 and "--source" in output and "--repair" in output


@pytest.mark.slow
def test_verify_encodes_a_damaged_shard_again(audio_folder, tmp_path, solfa_main, digest):
    dest = tmp_path / "d.solfa"
    solfa.encode(audio_folder, dest, codec=solfa.load_codec("mulaw"))
    clean = digest(dest)
    (data,) = (dest / "data").iterdir()
    data.write_bytes(b"")
    code, output = solfa_main("verify", dest, "--repair", "--source", audio_folder)
    assert code == 0 and f"data/{data.name}: encoded again" in output and "intact" in output
    assert digest(dest) == clean


def test_inspect_prints_and_writes_nothing_unless_asked(dataset, tmp_path, solfa_main, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    code, output = solfa_main("inspect", dataset)
    assert code == 0, output
    assert "codebook 0:" in output and "somebody says a" in output and "failed broken.wav: " in output
    names = re.findall(r"^([A-Z]\w+) ", output, re.MULTILINE)
    assert len(names) > 5 and len(set(names)) == len(names), "every fact has a name of its own"
    assert sorted(tmp_path.rglob("*")) == before


def test_inspect_writes_a_page_with_originals_beside_what_was_decoded(dataset, audio_folder, tmp_path, solfa_main):
    page = tmp_path / "page.html"
    code, output = solfa_main("inspect", dataset, "--source", audio_folder, "--page", page, "--clips", 2)
    assert code == 0 and "codebook 0:" in output and f"page: {page}" in output
    assert page.read_text().count("<audio") == 4


def test_inspect_finds_a_damaged_clip_whose_codes_are_in_range(dataset, solfa_main):
    (data,) = (dataset / "data").iterdir()
    array = solfa.open_dataset(dataset)["long.flac"].array
    content = bytearray(data.read_bytes())
    content[content.index(array.tobytes())] ^= 1
    data.write_bytes(content)
    code, output = solfa_main("inspect", dataset)
    assert code == 2 and "'long.flac' is damaged" in output and "solfa verify --repair" in output


def test_decode_writes_one_file_per_clip_and_keeps_existing_ones(dataset, tmp_path, solfa_main):
    out = tmp_path / "decoded"
    code, output = solfa_main("decode", dataset, out, "--clip", "voice/a.wav", "--clip", "long.flac")
    assert code == 0 and output.startswith("2 clips, ")
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*.wav")) == ["long.flac.wav", "voice/a.wav"]
    assert "7 clips" in solfa_main("decode", dataset, out)[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["encode", "nowhere", "d.solfa"], "nowhere: no such file"),
        (["encode", "", "d.solfa"], "SOURCE: expected a path, found nothing"),
        (["encode", "AUDIO", ""], "DEST: expected a path, found nothing"),
        (["encode", "AUDIO", "d.solfa", "--codec", "encodec_23khz"], "did you mean 'encodec_"),
        (["encode", "AUDIO", "d.solfa", "--codec", "mulaw:bots=3"], "did you mean 'bits'?"),
        (["encode", "AUDIO", "d.solfa", "--device", "tpu"], "--device tpu: "),
        (["encode", "AUDIO", "d.solfa", "--max-failed", "some"], "--max-failed: expected a count"),
        (["encode", "AUDIO", "d.solfa", "--segment-seconds", "-1"], "segment_seconds"),
        (["encode", "AUDIO", "d.solfa", "--limit", "0"], "limit: expected at least 1"),
        (["encode", "AUDIO", "d.solfa", "--precision", "fp64"], "precision"),
        (["status", "nowhere.solfa"], "nowhere.solfa: expected a Solfa dataset"),
        (["verify", "AUDIO"], "dataset.json"),
        (["decode", "DATASET", "out", "--format", "mp5"], "--format: expected wav, flac or ogg"),
        (["decode", "DATASET", "out", "--clip", "nobody"], "'nobody'"),
        (["decode", "DATASET", "out", "--codec", "mulaw:bits=4"], "expected the codec"),
        (["export", "DATASET", "out", "--format", "parkett"], "did you mean 'parquet'?"),
        (["inspect", "DATASET", "--source", "AUDIO"], "--source: is about the page"),
        (["inspect", "DATASET", "--no-decode"], "--page FILE"),
        (["decode", "DATASET", ""], "found nothing"),
        (["status", ""], "found nothing"),
        (["demo", "--out", "AUDIO"], "empty folder"),
        (["encoed", "AUDIO", "d.solfa"], "no such command 'encoed'"),
        (["encode", "AUDIO", "d.solfa", "--limit"], "requires an argument; see solfa encode --help"),
        (["encode"], "missing argument 'SOURCE'; see solfa encode --help"),
        (["encode", "AUDIO", "d.solfa", "--codex", "x"], "no such option: --codex"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_two(
    arguments, words, dataset, audio_folder, tmp_path, solfa_main, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    places = {"AUDIO": audio_folder, "DATASET": dataset}
    code, output = solfa_main(*(places.get(argument, argument) for argument in arguments))
    assert code == 2, output
    assert words in output
    assert "Traceback" not in output and "╭" not in output
    assert not (tmp_path / "d.solfa").exists() and not (tmp_path / "out").exists()


def test_control_characters_in_names_do_not_reach_the_terminal(audio_folder, tmp_path, solfa_main):
    (audio_folder / "evil\x1b[31m.wav").write_bytes(b"nothing")
    dest = tmp_path / "d.solfa"
    solfa.encode(audio_folder, dest, codec=solfa.load_codec("mulaw"))
    _, output = solfa_main("status", dest)
    assert "\x1b" not in output and "evil%1B" in output
