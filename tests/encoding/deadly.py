"""What kills a decoding process; a module of its own, because the process imports it."""

import os
import signal


class DeadlyUri(str):
    """A uri that kills whoever looks into it, as a file can that crashes a decoding library."""

    def __contains__(self, part: str) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError
