"""A process notices that its parent is gone, whichever way that shows, and leaves."""

import subprocess
import sys
import threading

from solfa.environment.parent_watch import end_with_parent

CHILD = """
import sys, time
from solfa.environment.parent_watch import end_with_parent
end_with_parent(sys.stdin.read)
print("watching", flush=True)
time.sleep(60)
"""


def test_it_leaves_when_the_wait_is_over_and_not_before():
    gone, left = threading.Event(), threading.Event()
    end_with_parent(gone.wait, left.set)
    assert not left.wait(0.05)
    gone.set()
    assert left.wait(10)


def test_a_process_ends_when_its_standard_input_does():
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None and child.stdin is not None
        assert child.stdout.readline() == "watching\n"
        child.stdin.close()
        assert child.wait(20) == 1
