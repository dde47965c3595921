"""Any executor will do: however encoders are started, lost and started again, dataset and report are the same."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import solfa
from solfa.encoding import api
from solfa.encoding.executors.executor_choice import Workforce, choose_workforce
from solfa.encoding.executors.local_executor import LocalExecutor
from solfa.encoding.executors.protocol import Oversight, progress_of
from solfa.encoding.progress import Progress
from solfa.encoding.worker_main import EncoderJob, run_job
from solfa.store.layout import committed_shards
from tests.conftest import write_tone
from tests.trees import tree_digest

CODEC = "mulaw:sample_rate=1000"


class LostError(Exception):
    """An encoder that is gone from one report to the next."""


class HereExecutor:
    """Runs encoders one after the other in this process, and loses the first few after some of their reports."""

    def __init__(self, *lost_after: int) -> None:
        self._lost_after = list(lost_after)
        self.checked: list[Path] = []
        self.was_over = False

    def expect_ready(self, root: Path, source_root: Path) -> None:
        self.checked = [root, source_root]

    def run(self, jobs: Sequence[EncoderJob], oversight: Oversight) -> None:
        number = 0
        waiting = list(jobs)
        while waiting:
            job = waiting.pop(0)
            try:
                self._run_one(number, job, oversight)
            except LostError:
                waiting.append(job)
            number += 1
        self.was_over = oversight.is_over()

    def _run_one(self, number: int, job: EncoderJob, oversight: Oversight) -> None:
        left = self._lost_after.pop(0) if self._lost_after else None

        def emit(report: dict[str, object]) -> None:
            nonlocal left
            oversight.waiting()
            oversight.progress(number, progress_of(report))
            left = None if left is None else left - 1
            if left == 0:
                raise LostError

        run_job(job, emit)


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Forty recordings of 16 s at 1 kHz, which are several shards of several batches, and one that cannot be read."""
    folder = tmp_path_factory.mktemp("executors") / "audio"
    for index in range(40):
        write_tone(folder / f"take{index:02d}.wav", 16.0 - 0.25 * (index % 3), 1000)
    (folder / "take99.wav").write_bytes(b"not audio at all")
    return folder


@pytest.fixture(scope="module")
def plain(recordings, tmp_path_factory):
    """The report and the digest of a run without any executor."""
    dest = tmp_path_factory.mktemp("plain") / "plain.solfa"
    report = solfa.encode(recordings, dest, codec=solfa.load_codec(CODEC), segment_seconds=4, batch_seconds=8)
    return report, tree_digest(dest)


def encode(source, dest, executor, monkeypatch):
    def choose(*arguments, **more):
        return replace_executor(choose_workforce(*arguments, **more), executor)

    monkeypatch.setattr(api, "choose_workforce", choose)
    return api.encode(
        source, dest, codec=CODEC, device="cpu", segment_seconds=4, batch_seconds=8, num_encoders=2, num_workers=0
    )


def replace_executor(chosen: Workforce, executor: HereExecutor) -> Workforce:
    assert isinstance(chosen.executor, LocalExecutor)
    return chosen._replace(executor=executor, encoders=replace(chosen.encoders, count=2))


@pytest.mark.parametrize(
    "lost_after",
    [(), (4, 9, 2), pytest.param((1,), marks=pytest.mark.slow), pytest.param((12, 3), marks=pytest.mark.slow)],
    ids=str,
)
def test_encoders_that_are_lost_and_started_again_change_nothing(recordings, plain, tmp_path, monkeypatch, lost_after):
    expected, digest = plain
    executor = HereExecutor(*lost_after)
    report = encode(recordings, tmp_path / "lost.solfa", executor, monkeypatch)
    assert len(committed_shards(tmp_path / "lost.solfa")) > 2
    assert tree_digest(tmp_path / "lost.solfa") == digest
    assert report.new_clips == expected.new_clips == expected.clips + expected.failed
    assert report.new_seconds == pytest.approx(expected.new_seconds)
    assert [failed.id for failed in report.failures] == ["take99.wav"]
    assert executor.was_over
    assert executor.checked == [tmp_path / "lost.solfa", recordings]


def test_a_report_says_which_shard_it_is_about():
    assert progress_of({"event": "claimed", "shard": 3, "owner": "node7 12"}) == Progress(shard=3)
    report = {"event": "progress", "progress": Progress(clips=2, seconds=time.monotonic(), shard=4)._asdict()}
    assert progress_of(report) == Progress(**report["progress"])
