"""Leave the log of a test process as it was, whatever a run in it has set up."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restored_log() -> Iterator[None]:
    """Take away, at the end, the handlers and the level that the root logger got meanwhile."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for handler in set(root.handlers) - set(before):
            root.removeHandler(handler)
            handler.close()
        if root.level != level:  # to set it empties what every logger remembers
            root.setLevel(level)
        logging.captureWarnings(False)
