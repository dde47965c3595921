"""Allow one run at a time in an experiment's folder: two would overwrite each other's state.

It is an operating system lock, so it goes away with the process that held it, however that ended.
"""

import json
import logging
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from solfa.errors import ConfigError
from solfa.xp.layout import LOCK

logger = logging.getLogger(__name__)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock an experiment's folder; refuse if another process holds it."""
    if sys.platform == "win32":
        raise ConfigError(f"{folder}: experiments need Linux or macOS, found Windows; run them in WSL")
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(_refusal(folder)) from None
        except OSError as error:  # some network file systems have no locks
            logger.warning("%s: cannot be locked (%s); make sure that nothing else runs this experiment", folder, error)
        file.seek(0)
        file.truncate()
        json.dump({"host": platform.node(), "process": os.getpid()}, file)
        file.flush()
        yield


def _refusal(folder: Path) -> str:
    text = (folder / LOCK).read_text()
    holder = json.loads(text) if text else {}
    who = f"process {holder['process']} on {holder['host']}" if holder else "another process"
    return f"{folder}: {who} is already running this experiment; wait for it, or stop it first"
