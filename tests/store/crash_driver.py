"""Fork a child for every pass of every crash point and let it die there.

Usage: crash_driver.py FOLDER WHERE NAME...   writes WHERE/NAME#PASS/d.solfa until a child gets through; prints each
pass. WHERE is FOLDER or the URL of an object store, which only the children talk to.
A process of its own, because forking the tests' process, which has threads, is not safe (Arrow's survive it). A build
before the first fork loads everything once, which makes the children ten times as fast.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from store_maker import build_in_two_steps

from solfa.files.crash_points import VARIABLE


def dies(point: str, root: str) -> bool:
    """Build a dataset in a child; say whether it was killed."""
    child = os.fork()
    if child == 0:
        os.environ[VARIABLE] = point
        build_in_two_steps(root)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, f"the child failed at {point}"
    return False


def main(folder: Path, where: str, names: list[str]) -> None:
    os.fsync = lambda descriptor: None
    build_in_two_steps(folder / "uninterrupted")
    for name in names:
        passes = 1
        while dies(f"{name}#{passes}", f"{where}/{name}#{passes}/d.solfa"):
            sys.stdout.write(f"{name}#{passes}\n")
            passes += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
