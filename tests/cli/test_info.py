"""`solfa info` as a user types it: how experiments stand, from their folders alone."""

import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from solfa.cli.main import main
from solfa.errors import SolfaError
from solfa.xp.failure import record_failure
from solfa.xp.lock import locked

COMMAND = [sys.executable, "-c", "from solfa.cli.main import main; main()", "info"]
HISTORY = [{"train": {"loss": 4.0 - epoch, "lr": 0.1}, "valid": {"loss": 5.0 - epoch}} for epoch in range(3)]


@pytest.fixture
def dora_dir(tmp_path, monkeypatch) -> Path:
    """Three experiments: one finished, one stopped long ago after a bad epoch, one that never ran."""
    for name in [name for name in os.environ if name.startswith(("SOLFA_", "AUDIOCRAFT_"))]:
        monkeypatch.delenv(name)
    for signature in ("9521b0af", "95aa0001", "c0ffee12"):
        folder = tmp_path / "xps" / signature
        folder.mkdir(parents=True)
        (folder / ".argv.json").write_text(json.dumps(["solver=lm/debug", f"note={signature[:2]}"]))
    finished, stopped = tmp_path / "xps/9521b0af", tmp_path / "xps/95aa0001"
    (finished / "history.json").write_text(json.dumps(HISTORY))
    (finished / "config.json").write_text(json.dumps({"solver": "lm", "optim": {"epochs": 3}, "seed": 7}))
    (finished / "solver.log.0").write_text("epoch 1\n\x1b[32mepoch 2\x1b[0m\nevil \x1b]0;title\x07\n")
    (finished / "checkpoint.pt").write_bytes(b"0" * 2000)
    (stopped / "history.json").write_text(json.dumps([{"train": {"loss": math.nan}}]))
    for path in stopped.iterdir():
        os.utime(path, (0, 1_000_000))
    monkeypatch.setenv("SOLFA_DORA_DIR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def solfa_info(monkeypatch, capsys, dora_dir):
    """Run the whole command in this process; return exit code, output and faults."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["solfa", "info", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            main()
        captured = capsys.readouterr()
        return int(leaving.value.code or 0), captured.out, captured.err

    return run


def test_all_experiments_are_listed_with_state_epochs_and_loss(solfa_info):
    code, output, _ = solfa_info()
    lines = {line.split()[0]: " ".join(line.split()) for line in output.splitlines()}
    assert code == 0 and set(lines) == {"signature", "9521b0af", "95aa0001", "c0ffee12"}
    assert re.match(r"9521b0af done 3 of 3 valid.loss 3 3 \d+ s ago solver=lm/debug note=95$", lines["9521b0af"])
    assert re.match(r"95aa0001 stopped 1 train.loss nan [\d,.]+ days ago solver", lines["95aa0001"])
    assert re.match(r"c0ffee12 never ran 0 \d+ s ago solver=lm/debug note=c0$", lines["c0ffee12"])
    assert output.splitlines()[-1].startswith("95aa0001"), "the latest come first"


@pytest.mark.parametrize("arguments", [["9521b0af"], ["9521"], ["-f", "9521b0af"], ["//sig/9521b0af"], ["PATH"]])
def test_one_experiment_is_shown_with_its_curves(arguments, solfa_info, dora_dir):
    path = str(dora_dir / "xps/9521b0af")
    code, output, _ = solfa_info(*(path if argument == "PATH" else argument for argument in arguments))
    assert code == 0 and path in output and "solver=lm/debug note=95" in output
    assert re.search(r"state +done, last written \d+ s ago", output) and re.search(r"epochs +3 of 3", output)
    assert re.search(r"checkpoints +checkpoint.pt \(2 kB\)", output)
    assert re.search(r"train +loss +2 +2 +3 +█▅▁", output) and re.search(r" lr +0\.1 +▄▄▄", output)
    assert re.search(r"valid +loss +3 +3 +3 +█▅▁", output)


def test_an_experiment_that_never_ran_has_nothing_to_show(solfa_info):
    assert "never ran" in solfa_info("c0ffee12")[1]
    assert "no epoch" in solfa_info("c0ffee12", "-m")[1]


def test_all_values_are_shown_epoch_by_epoch(solfa_info):
    code, output, _ = solfa_info("9521", "--metrics")
    rows = [line.split() for line in output.splitlines() if line.strip()]
    assert code == 0
    assert rows == [
        *(["train"], ["epoch", "loss", "lr"], ["1", "4", "0.1"], ["2", "3", "0.1"], ["3", "2", "0.1"]),
        *(["valid"], ["epoch", "loss"], ["1", "5"], ["2", "4"], ["3", "3"]),
    ]


def test_json_is_strict_and_whole(solfa_info):
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    code, output, _ = solfa_info("9521", "--json")
    found = json.loads(output, parse_constant=refuse)
    assert code == 0 and found["history"] == HISTORY and found["state"] == "done"
    assert (found["config"]["seed"], found["overrides"][1], found["checkpoints"]) == (7, "note=95", ["checkpoint.pt"])
    everything = json.loads(solfa_info("--json")[1], parse_constant=refuse)
    assert [found["history"] for found in everything if found["signature"] == "95aa0001"] == [
        [{"train": {"loss": None}}]
    ]


def test_the_config_and_the_log_are_printed(solfa_info):
    assert solfa_info("9521", "--config")[1] == "solver: lm\noptim:\n  epochs: 3\nseed: 7\n"
    code, output, _ = solfa_info("9521", "--log")
    assert code == 0 and output.splitlines()[0] == "epoch 1"
    assert "\x07" not in output and "\x1b]" not in output and "evil \\x1b]0;title\\x07" in output


def test_it_says_who_runs_an_experiment_and_why_one_ended(solfa_info, dora_dir):
    xps = dora_dir / "xps"
    with locked(xps / "c0ffee12"):
        assert "c0ffee12 running 0" in " ".join(solfa_info()[1].split())
    (xps / "c0ffee12/.lock").write_text(json.dumps({"host": platform.node(), "process": 77}))
    assert re.search(r"state +dead: process 77 on .* was killed", solfa_info("c0")[1])
    record_failure(xps / "95aa0001", SolfaError("epoch 1, update 3: found nan"))
    assert re.search(r"state +failed: epoch 1, update 3: found nan, last written", solfa_info("95aa")[1])
    assert json.loads(solfa_info("95aa", "--json")[1])["failure"] == "epoch 1, update 3: found nan"
    record_failure(xps / "9521b0af", SolfaError("no codec"))
    assert re.search(r"state +done,.*\n.*\nlast error +no codec", solfa_info("9521")[1])


def test_the_conditions_of_a_model_are_shown_as_the_flags_that_set_them(solfa_info, dora_dir):
    conditioners = {
        "description": {"kind": "text", "source": "caption"},
        "genre": {"kind": "labels", "vocabulary": ["jazz", "rock"]},
        "mood": {"kind": "labels", "vocabulary": None},
        "bpm": {"kind": "number", "min": 40.0, "max": 220.0},
    }
    config = {"solver": "lm", "optim": {"epochs": 3}, "conditioner": {"conditioners": conditioners}}
    (dora_dir / "xps/9521b0af/config.json").write_text(json.dumps(config))
    (dora_dir / "xps/9521b0af/checkpoint.pt").unlink()
    _, output, _ = solfa_info("9521")
    assert re.search(r'--text "..." +any text *\n--set genre=... +jazz, rock *\n--set mood=... +labels', output)
    assert re.search(r"--set bpm=NUMBER +from 40 to 220 *\n", output)
    found = {one["name"]: one for one in json.loads(solfa_info("9521", "--json")[1])["conditions"]}
    assert found["genre"]["labels"] == ["jazz", "rock"] and found["bpm"]["range"] == [40.0, 220.0]


def test_a_damaged_history_is_named_and_the_rest_is_shown(solfa_info, dora_dir):
    (dora_dir / "xps/9521b0af/history.json").write_text("[{")
    code, output, faults = solfa_info("9521")
    assert code == 0 and "note=95" in output
    assert "damaged" in faults and "history.json" in faults


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["9521b0aa"], "9521b0aa: .*XPS.*9521b0af"),
        (["zzz"], "zzz: .*XPS.*(9521b0af|95aa0001|c0ffee12)"),
        (["95"], "95: .*XPS.*9521b0af, 95aa0001"),
        (["9521", "-t", "--json"], "found --tail and --json"),
        (["-t"], "--tail: expected .*signature"),
        (["9521", "-f", "c0"], "found 9521 and -f c0"),
        (["c0", "--log"], r"solver\.log\.0: expected a log"),
        (["c0", "--config"], "c0ffee12: .*config"),
        (["--colour"], "no such option"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_two(arguments, words, solfa_info, dora_dir):
    code, output, faults = solfa_info(*arguments)
    assert code == 2 and output == "" and "Traceback" not in faults
    assert re.search(words.replace("XPS", str(dora_dir / "xps")), faults)


def test_unknown_teams_and_empty_places_are_answered(solfa_info, monkeypatch, tmp_path):
    monkeypatch.setenv("SOLFA_TEAM", "nobody")
    code, _, faults = solfa_info()
    assert code == 2 and "team 'nobody'" in faults and "'default'" in faults
    monkeypatch.delenv("SOLFA_TEAM")
    monkeypatch.setenv("SOLFA_DORA_DIR", str(tmp_path / "empty"))
    code, output, _ = solfa_info()
    assert code == 0 and str(tmp_path / "empty" / "xps") in output and output.count("\n") == 1


def test_following_ends_with_the_run_and_says_how(solfa_info, dora_dir, monkeypatch):
    code, output, faults = solfa_info("9521", "-t")
    assert code == 0 and output.startswith("epoch 1\n") and "9521b0af" in faults and "done" in faults
    folder = dora_dir / "xps/c0ffee12"
    running = ExitStack()
    running.enter_context(locked(folder))
    (folder / "solver.log.0").write_text("first\n")

    def end(seconds: float) -> None:
        """End the run while it is followed, with a last line."""
        with (folder / "solver.log.0").open("a") as file:
            file.write("last\n")
        record_failure(folder, SolfaError("the disk is full"))
        running.close()

    monkeypatch.setattr("solfa.cli.info.time.sleep", end)
    code, output, faults = solfa_info("c0", "-t")
    assert code == 0 and output == "first\nlast\n" and "the disk is full" in faults


def test_a_log_is_followed_from_before_it_exists_until_it_is_interrupted(dora_dir):
    log = dora_dir / "xps/c0ffee12/solver.log.0"
    # Where these tests were started in the background, Ctrl-C is ignored, and what they start would ignore it, too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen([*COMMAND, "c0", "-t"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    signal.signal(signal.SIGINT, before)
    try:
        assert process.stderr is not None and process.stdout is not None
        assert process.stderr.readline() == f"waiting for {log}\n"
        with locked(log.parent):
            for line in ("first\n", "second\n"):
                with log.open("a") as file:
                    file.write(line)
                assert process.stdout.readline() == line
            log.write_text("anew\n")
            assert process.stdout.readline() == "anew\n"
            process.send_signal(signal.SIGINT)
            rest, faults = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, rest, faults) == (0, "", "")


def test_it_answers_without_importing_anything_heavy(dora_dir):
    script = (
        "import sys; sys.argv = ['solfa', 'info', '9521']\n"
        "from solfa.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pyarrow', 'hydra', 'omegaconf', 'dora', 'transformers'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "HEAVY []" in run.stdout and "done" in run.stdout
