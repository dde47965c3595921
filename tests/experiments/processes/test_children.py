"""Processes that end together: asked, killed when they do not listen, and gone when their parent is."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from solfa.experiments.processes.children import PIPE, Family, watch_parent

SAVES = """
import pathlib, signal, sys, time
def save(number, frame):
    pathlib.Path(sys.argv[1], "saved").touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
pathlib.Path(sys.argv[1], "ready").touch()
time.sleep(60)
"""
DEAF = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(sys.argv[1], "grandchild").write_text(str(grandchild.pid))
pathlib.Path(sys.argv[1], "ready").touch()
time.sleep(60)
"""
PARENT = """
import os, pathlib, sys, time
from solfa.experiments.processes.children import Family
with Family() as family:
    child = family.start([sys.executable, "-c", sys.argv[2], sys.argv[1]], os.environ)
    pathlib.Path(sys.argv[1], "child").write_text(str(child.pid))
    time.sleep(60)
"""
WATCHES = """
import os
from solfa.experiments.processes.children import watch_parent
watch_parent(os.environ)
"""


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 60
    while is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_children_are_asked_to_stop_and_may_save(tmp_path):
    with Family() as family:
        child = family.start([sys.executable, "-c", SAVES, str(tmp_path)], os.environ)
        wait_for(tmp_path / "ready")
    assert (child.returncode, (tmp_path / "saved").exists()) == (0, True)


def test_what_does_not_stop_in_time_is_killed_with_all_that_it_started(tmp_path):
    with Family(grace_seconds=0.1) as family:
        child = family.start([sys.executable, "-c", DEAF, str(tmp_path)], os.environ)
        wait_for(tmp_path / "ready")
    assert child.returncode == -signal.SIGKILL
    wait_until_gone(int((tmp_path / "grandchild").read_text()))


def test_a_second_interrupt_ends_the_patience(tmp_path):
    with Family(grace_seconds=300) as family:
        child = family.start([sys.executable, "-c", DEAF, str(tmp_path)], os.environ)
        wait_for(tmp_path / "ready")
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
    assert (child.returncode, family.exit_code) == (-signal.SIGKILL, 130)


def test_signals_are_noted_inside_and_handled_as_before_outside():
    before = signal.getsignal(signal.SIGTERM)
    with Family() as family:
        signal.raise_signal(signal.SIGTERM)
        assert family.received == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGTERM) is before
    assert family.exit_code == 143


def test_a_child_whose_parent_is_killed_outright_saves_and_stops(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), WATCHES + SAVES])
    wait_for(tmp_path / "ready")
    child = int((tmp_path / "child").read_text())
    parent.kill()
    parent.wait()
    wait_until_gone(child)
    assert (tmp_path / "saved").exists()


def test_output_goes_behind_what_the_file_holds(tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    with Family() as family:
        family.start([sys.executable, "-c", "print('after')"], os.environ, log).wait()
    assert log.read_text() == "before\nafter\n"


def test_a_process_that_nobody_watches_over_watches_nobody():
    environment = {"HOME": "/"}
    watch_parent(environment)
    assert environment == {"HOME": "/"} and PIPE not in environment
