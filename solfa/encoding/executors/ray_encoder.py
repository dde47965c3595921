"""What runs on the nodes of a Ray cluster: a look at the node, and an actor that runs one ordinary encoder process.

Everything that is sent is JSON or plain values, so that a node with another version can still say so.
"""

import json
import os
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from solfa.encoding.executors.encoder_process import Process, encoder_environment, end_encoders, start_encoder
from solfa.encoding.worker_main import EncoderJob
from solfa.version import __version__

_LIBRARIES = ("torch", "soundfile", "soxr")
"""What the numbers depend on besides Solfa itself."""
_LAST_WORDS = 2000


def versions() -> dict[str, str]:
    """List the versions that must agree; builds for other devices (`2.13.0+cpu`) do not matter."""
    found = {"solfa": __version__}
    for name in _LIBRARIES:
        try:
            found[name] = version(name).partition("+")[0]
        except PackageNotFoundError:
            found[name] = "none"
    return found


def look_around(expected: Mapping[str, str], paths: Sequence[str]) -> dict[str, Any]:
    """Say which machine this is, and why it cannot work on a run, if so."""
    here = versions()
    other = [f"runs {name} {here.get(name)}, not {wanted}" for name, wanted in expected.items() if here[name] != wanted]
    unseen = [f"does not see {path}" for path in paths if not os.path.exists(path)]  # noqa: PTH110
    return {"event": "greeting", "host": platform.node(), "faults": other + unseen}


class RayEncoder:
    """Runs one encoder process, and passes on what it reports."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._is_stopping = False

    def run(self, job: str, expected: Mapping[str, str], paths: Sequence[str]) -> Iterator[str]:
        """Yield a greeting and, if nothing is wrong with this node, the reports and the exit code of an encoder."""
        greeting = look_around(expected, paths)
        yield json.dumps(greeting)
        if greeting["faults"]:
            return
        parsed = EncoderJob.model_validate_json(job)
        with tempfile.TemporaryFile("w+", errors="replace") as words:
            self._process = start_encoder(parsed, encoder_environment(parsed, os.environ), words)
            if self._is_stopping:
                self._process.terminate()
            try:
                assert self._process.stdout is not None
                for line in self._process.stdout:  # noqa: UP028 - Ray sends values to what it yields from
                    yield line
                code = self._process.wait()
            finally:
                end_encoders([self._process])
            words.seek(max(0, words.seek(0, os.SEEK_END) - _LAST_WORDS))
            yield json.dumps({"event": "exit", "code": code, "words": words.read()})

    def stop(self) -> None:
        """Let the encoder finish the batch that it is in, and wait until it has ended."""
        self._is_stopping = True
        if self._process is not None:
            end_encoders([self._process])
