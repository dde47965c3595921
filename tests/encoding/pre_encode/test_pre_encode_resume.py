"""Killed anywhere and run again, and dealt to several ranks: the same files."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from solfa.errors import StoreError
from solfa.store.lease import Lease

# One process that imports once for all tests and forks a child per run, before it has any thread of its own.
DRIVER = """
import json, os, signal, sys, time
from solfa.encoding.pre_encode.config import parse_pre_encode
from solfa.encoding.pre_encode.session import pre_encode

def start(settings, environment):
    child = os.fork()
    if child:
        return child
    os.environ.update(environment)
    code = 1
    try:
        pre_encode(parse_pre_encode(settings))
        code = 0
    finally:
        os._exit(code)

def drive(stage):
    children = [start(stage["settings"], environment) for environment in stage["environments"]]
    if stage["kill_after"]:
        time.sleep(stage["kill_after"])
        for child in children:
            os.kill(child, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]

for line in sys.stdin:
    folder, stages = json.loads(line)
    os.chdir(folder)
    print(json.dumps([drive(stage) for stage in stages]), flush=True)
"""


def stage(settings, *environments, kill_after=None):
    return {"settings": settings, "environments": environments, "kill_after": kill_after}


@pytest.fixture(scope="module")
def driver():
    with subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def drive(driver):
    """Run stages one after the other, the processes of each at once; return their exit codes."""

    def run(*stages):
        driver.stdin.write(json.dumps([str(Path.cwd()), stages]) + "\n")
        driver.stdin.flush()
        return json.loads(driver.stdout.readline())

    return run


@pytest.fixture
def collection(wav, tmp_path):
    for number in range(5):
        wav(f"{number}.wav", 3000 + 2500 * number)
    (tmp_path / "audio/broken.wav").write_bytes(b"RIFF")


@pytest.mark.slow
def test_a_run_that_was_killed_again_and_again_ends_with_the_same_files(
    collection, run, drive, settings, tmp_path, digest
):
    run()
    expected = digest(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "expected")
    points = [
        "plan:probed",
        "pre-encode:before-list",
        "publish:before-link",
        "pre-encode:between#2",
        "pre-encode:stored#3",
    ]
    points += ["pre-encode:between", "pre-encode:before-finish"]
    codes = drive(*[stage(settings(), {"SOLFA_CRASH_AT": point}) for point in points])
    assert codes == [[-9]] * len(points)
    assert run().new_items == 0  # the last was killed when all was stored, before the list of failures was complete
    assert digest(tmp_path / "out") == expected
    assert not list((tmp_path / "out").rglob(".*"))


@pytest.mark.slow
def test_killing_at_random_moments_changes_nothing(collection, run, drive, settings, tmp_path, digest):
    run(batch_size=1)
    expected = digest(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "expected")
    moments = random.Random(7)
    drive(*[stage(settings(batch_size=1), {}, kill_after=moments.uniform(0.01, 0.15)) for _ in range(12)])
    run(batch_size=1)
    assert digest(tmp_path / "out") == expected
    assert not list((tmp_path / "out").rglob(".*"))


def test_a_torn_or_half_written_item_does_not_count(collection, run, tmp_path, digest):
    run()
    expected = digest(tmp_path / "out")
    rank = tmp_path / "out/0"
    (rank / "0000000000001.json").unlink()
    (rank / "0000000010000.npy").unlink()
    (rank / ".0000000000001.json.12.abcd").write_text('{"path"')
    assert run().new_items == 2
    assert digest(tmp_path / "out") == expected
    assert run().new_items == 0


@pytest.mark.slow
def test_two_ranks_at_once_share_the_items_without_repeating_any(
    collection, run, drive, read, failures, settings, tmp_path, digest
):
    run()
    alone = read()
    ranks = [{"RANK": str(rank), "WORLD_SIZE": "2"} for rank in range(2)]
    both = settings(output_path=str(tmp_path / "both"), num_nodes=2)
    in_turn = settings(output_path=str(tmp_path / "in_turn"))
    assert drive(stage(both, *ranks), stage(in_turn, ranks[1]), stage(in_turn, ranks[0])) == [[0, 0], [0], [0]]
    dealt = read("both")
    assert {name[:3] for name in dealt} == {"000", "001"}

    def content(items):
        return sorted((facts["solfa"]["id"], array.tobytes()) for array, facts in items.values())

    assert content(dealt) == content(alone)
    assert failures("both").keys() == failures().keys() == {"broken.wav"}
    assert {**digest(tmp_path / "both"), "details.json": ""} == {**digest(tmp_path / "in_turn"), "details.json": ""}
    with pytest.raises(StoreError, match=r"world_size: 2\b.* 1\b"):
        run(output_path=str(tmp_path / "both"))


def test_a_second_process_of_the_same_rank_is_refused(collection, run, tmp_path):
    run()
    lease = Lease.take(tmp_path / "out", 0)
    with lease, pytest.raises(StoreError, match=r"another process .*rank 0"):
        run()


def test_a_list_that_somebody_else_froze_reads_nothing_that_the_source_does_not_name(run, wav, tmp_path, digest):
    wav("a.wav", 4000)
    run()
    wav("../home/secret.wav", 4000)
    listed = pq.read_table(tmp_path / "out/items.parquet")
    found = (tmp_path / "home/secret.wav").stat()
    forged = {"uri": str(tmp_path / "home/secret.wav"), "size_bytes": found.st_size, "mtime_ns": found.st_mtime_ns}
    rows = [{**row, **forged} for row in listed.to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=listed.schema), tmp_path / "out/items.parquet")
    for path in (tmp_path / "out/0").iterdir():
        path.unlink()
    with pytest.raises(StoreError, match=r"secret\.wav"):
        run()
    assert not list((tmp_path / "out/0").iterdir())
