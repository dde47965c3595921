"""`solfa generate` of a model of waveforms: audio to hear while it is drawn, and what is left of an interrupted run."""

import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from solfa.codecs.families.mulaw import MulawOptions
from solfa.codecs.families.quantized import WaveformCodec
from solfa.config import parse_config
from solfa.solvers.experiment import Experiment
from solfa.solvers.tasks.sashimi import SashimiSolver, SashimiSolverConfig
from tests.cli.conftest import SolfaMain
from tests.solvers.waveforms import sashimi_values, store_tones

RATE = 1000
CATEGORICAL, MIXTURE = "ca7e0000", "d3100000"


@pytest.fixture(scope="module")
def dora_dir(quiet_process: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two experiments that have seen one batch each."""
    folder = tmp_path_factory.mktemp("dora")
    data = store_tones(folder / "tones.solfa", WaveformCodec(MulawOptions(bits=6, sample_rate=RATE)))
    for signature, head in ((CATEGORICAL, "categorical"), (MIXTURE, "dml")):
        short = {"optim__epochs": 1, "optim__updates_per_epoch": 1, "model__output_head": head}
        cfg = parse_config(SashimiSolverConfig, sashimi_values(data, **short), "test")
        place = folder / "xps" / signature
        SashimiSolver(cfg, Experiment(place, signature)).run()
        (place / "config.json").write_text(json.dumps(cfg.model_dump(mode="json")))
    return folder


@pytest.fixture
def generate(dora_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, solfa_main: SolfaMain) -> SolfaMain:
    """Run the command into `tmp_path/out`; return exit code and output."""
    monkeypatch.setenv("SOLFA_DORA_DIR", str(dora_dir))

    def run(*arguments: object, out: str = "out") -> tuple[int, str]:
        return solfa_main("generate", *arguments, "--out", tmp_path / out)

    return run


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def audio(path: Path) -> NDArray[np.float32]:
    samples, rate = soundfile.read(path, dtype="float32")
    assert rate == RATE
    return samples


def signal_when(path: Path, num_samples: int, number: signal.Signals, seen: list[int]) -> threading.Thread:
    """Send ourselves a signal once a file holds so many samples, as a listener finds it."""

    def watch() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if path.exists() and path.stat().st_size and (found := soundfile.info(path).frames) >= num_samples:
                seen.append(found)
                os.kill(os.getpid(), number)
                return
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_what_was_streamed_is_what_is_written_without_streaming(generate: SolfaMain, tmp_path: Path) -> None:
    wanted = [CATEGORICAL, "--num", 2, "--seconds", 0.6]
    code, output = generate(*wanted, out="streamed")
    assert code == 0
    assert f"{tmp_path}/streamed/*.partial.wav" in output and f"2 clips in {tmp_path}/streamed" in output
    code, output = generate(*wanted, "--no-stream", out="at-once")
    assert code == 0 and output.split() == f"2 clips in {tmp_path}/at-once".split()
    assert files(tmp_path / "streamed") == files(tmp_path / "at-once")
    assert files(tmp_path / "streamed") == [f"clip-00{n}.{kind}" for n in (0, 1) for kind in ("json", "png", "wav")]
    for name in files(tmp_path / "streamed"):
        streamed, at_once = tmp_path / "streamed" / name, tmp_path / "at-once" / name
        if name.endswith(".wav"):  # the file itself says when it was written
            assert np.array_equal(audio(streamed), audio(at_once)) and len(audio(streamed)) == 600
        else:
            assert streamed.read_bytes() == at_once.read_bytes()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_leaves_what_was_drawn_and_says_where(
    generate: SolfaMain, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    first, seen = tmp_path / "out/clip-000.partial.wav", list[int]()
    thread = signal_when(first, 512, number, seen)
    found, output = generate(CATEGORICAL, "--num", 4, "--seconds", 20_000, "--reject-lowest", 0.5)
    thread.join()
    assert found == code
    names = [f"clip-00{index}.partial.wav" for index in range(4)]
    assert files(tmp_path / "out") == names
    told = ", ".join(str(tmp_path / "out" / name) for name in names[:3])
    assert re.search(rf"interrupted.*0 clips.*{told} and 1 more", output)
    left = [audio(tmp_path / "out" / name) for name in names]
    assert len({len(samples) for samples in left}) == 1 and len(left[0]) >= seen[0] >= 512
    assert generate(CATEGORICAL, "--num", 4, "--seconds", 0.5, out="whole")[0] == 0
    for index, samples in enumerate(left):
        assert np.array_equal(samples[:500], audio(tmp_path / f"whole/clip-00{index}.wav"))


def test_clips_of_an_interrupted_run_are_replaced_only_when_asked(generate: SolfaMain, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/clip-000.partial.wav").write_bytes(b"mine")
    code, output = generate(CATEGORICAL, "--seconds", 0.1)
    assert code == 2 and re.search(r"clip-000\.partial\.wav .*--out .*--overwrite", output)
    assert generate(CATEGORICAL, "--seconds", 0.1, "--no-stream")[0] == 0
    assert (tmp_path / "out/clip-000.partial.wav").read_bytes() == b"mine"
    assert generate(CATEGORICAL, "--seconds", 0.1, "--overwrite")[0] == 0
    assert files(tmp_path / "out") == ["clip-000.json", "clip-000.png", "clip-000.wav"]


def test_rejected_clips_leave_nothing(generate: SolfaMain, tmp_path: Path) -> None:
    code, output = generate(CATEGORICAL, "--num", 5, "--seconds", 0.05, "--reject-lowest", 0.4, "--reject-highest", 0.2)
    assert code == 0 and f"2 clips in {tmp_path}/out" in output
    kept = {Path(name).stem for name in files(tmp_path / "out")}
    assert len(kept) == 2 and files(tmp_path / "out") == sorted(
        f"{n}.{k}" for n in kept for k in ("json", "png", "wav")
    )


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_sorted_clips_carry_their_rank_in_likelihood(generate: SolfaMain, tmp_path: Path, stream: str) -> None:
    wanted = [MIXTURE, "--num", 12, "--seconds", 0.05, "--sort", stream]
    assert generate(*wanted)[0] == 0
    about = [json.loads(path.read_text()) for path in sorted((tmp_path / "out").glob("*.json"))]
    bits = [one["metadata"]["bits_per_sample"] for one in about]
    assert len(bits) == 12 and bits == sorted(bits)
    names = [f"rank-{rank:02d}-{one['name']}" for rank, one in enumerate(about, 1)]
    assert files(tmp_path / "out") == [f"{name}.{kind}" for name in names for kind in ("json", "png", "wav")]
    code, output = generate(*wanted)
    assert code == 2 and re.search(r"rank-01-.* already exists.*--overwrite", output)
    # With other draws the ranks are others, and nothing stays of the clips that were replaced.
    assert generate(*wanted, "--temperature", 0.5, "--overwrite")[0] == 0
    assert len(files(tmp_path / "out")) == 36


def test_other_formats_are_streamed_too(generate: SolfaMain, tmp_path: Path) -> None:
    assert generate(MIXTURE, "--seconds", 0.1, "--format", "flac", "--stream")[0] == 0
    assert files(tmp_path / "out") == ["clip-000.flac", "clip-000.json", "clip-000.png"]


def test_what_a_temperature_means_for_a_mixture_may_be_chosen(generate: SolfaMain, tmp_path: Path) -> None:
    for kind in ("heuristic", "exact"):
        common = (MIXTURE, "--seconds", 0.1, "--temperature", 0.5)
        assert generate(*common, "--semantics", kind, out=kind)[0] == 0
        about = json.loads((tmp_path / kind / "clip-000.json").read_text())
        assert about["metadata"]["sampling"] == {"temperature": 0.5, "semantics": kind}
    assert not np.array_equal(audio(tmp_path / "heuristic/clip-000.wav"), audio(tmp_path / "exact/clip-000.wav"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--weights", "int8"], "--weights int8: .*sashimi.*leave it out"),
        (["--semantics", "heuristic"], "--semantics: .*exact.*found heuristic"),
        (["--reject-lowest", 0.7], r"--reject-lowest.* 0\.7 and 0 .*reject less"),
        (["--top-k", 5], "--top-k: .*leave it out"),
    ],
)
def test_what_the_model_cannot_do_gets_a_sentence_and_leaves_no_file(
    arguments: list[object], words: str, generate: SolfaMain, tmp_path: Path
) -> None:
    code, output = generate(CATEGORICAL, "--seconds", 0.05, *arguments)
    assert code == 2 and output.startswith("solfa: ") and re.search(words, output)
    assert not list(tmp_path.glob("out/*"))


def test_a_clip_that_is_called_as_the_beginning_of_another_is_refused(generate: SolfaMain, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("name\na\na.partial\n")
    code, output = generate(CATEGORICAL, "--seconds", 0.05, "--captions", tmp_path / "names.csv")
    assert code == 2 and re.search(r"clip 'a\.partial': a\.partial\.wav .*'a'", output)
    assert generate(CATEGORICAL, "--seconds", 0.05, "--captions", tmp_path / "names.csv", "--no-stream")[0] == 0
    assert len(list(tmp_path.glob("out/*.wav"))) == 2
