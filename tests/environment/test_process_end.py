"""A process that ends at once still does what it has put off, says what it has said, and has its exit code."""

import subprocess
import sys


def test_nothing_that_was_put_off_is_lost():
    script = """
import atexit, sys, threading
from solfa.environment.process_end import end_process
atexit.register(print, "put off")
threading.Thread(target=threading.Event().wait).start()
print("said")
sys.stderr.write("also said")
end_process(3)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (3, "said\nput off\n", "also said")
