"""Wait for the jobs of studios, which run in threads."""

import threading


def wait_for_jobs() -> None:
    """Wait until nothing runs and nothing waits, and all that ended has been noted."""
    for thread in threading.enumerate():
        if thread.name == "studio-jobs":
            thread.join()
