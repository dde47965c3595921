"""Commands in processes that begin at once: forks of one process that has imported everything already.

python -m tests.ready_process

Importing torch takes seconds, and a test that kills a command, or looks how it ends, waits for it each time. Here one
process imports, and each command is a fork of it, in a session of its own, as in a terminal of its own. What commands
start in their turn (encoders, workers of a run) are new processes, as always.

Requests and answers are JSON, one a line: a command is answered with its process id, `{"wait": ID}` with its exit code
or, while it runs, with null.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOLFA, DORA = "solfa", "dora"
"""The modules that can be run."""


class Command:
    """A command that was started, much like a `subprocess.Popen`."""

    def __init__(self, ready: "ReadyProcess", pid: int, output: Path) -> None:
        self._ready, self.pid, self._output = ready, pid, output
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._ready.ask({"wait": self.pid})
        return self.returncode

    def wait(self, seconds: float = 300) -> int:
        """Wait for the end, and give the exit code; the time is only against hanging."""
        deadline = time.monotonic() + seconds
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, f"it did not end; it said {self.output}"
            time.sleep(0.02)
        return code

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.wait()

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return self._output.read_text("utf-8")


class ReadyProcess:
    """The process that has imported everything."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._commands = folder, list[Command]()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.ready_process"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, request: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *arguments: object, module: str = SOLFA, cwd: Path = ROOT, **environment: str) -> Command:
        """Start `python -m MODULE ARGUMENTS`, with exactly these variables if `PATH` is among them, else with them too.

        Both what it prints and what it says of errors is its output.
        """
        output = self._folder / f"{len(self._commands)}.txt"
        variables = environment if "PATH" in environment else {**os.environ, **environment}
        request = {"module": module, "arguments": list(map(str, arguments)), "cwd": str(cwd), "output": str(output)}
        self._commands.append(Command(self, self.ask({**request, "environment": variables}), output))
        return self._commands[-1]

    def end(self) -> None:
        """End all commands that still run, and the process."""
        for command in self._commands:
            command.kill()
        self._process.communicate()


def import_everything() -> None:
    """Import what commands need; but for `solfa.train`, which reads variables when it is imported."""
    for name in (
        "dora.grid",
        "dora.info",
        "dora.launch",
        "dora.run",
        "dora.share",
        "lightning_fabric",
        "solfa.cli.main",
        "solfa.encoding.api",
        "solfa.encoding.pre_encode.session",
        "solfa.experiments.compose.default_solver",
        "solfa.experiments.processes.grid",
        "solfa.experiments.run.execution",
        "solfa.solvers.standard",
    ):
        import_module(name)
    import_module("pyarrow").array([0])  # makes it import pandas, if it is installed


def run_command(request: Mapping[str, Any]) -> None:
    """Become the command."""
    os.setsid()
    with open(os.devnull) as nothing, Path(request["output"]).open("w") as output:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    if "OMP_NUM_THREADS" in os.environ:  # which torch read when it was imported
        import_module("torch").set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        signal.signal(number, handler)
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:] = [request["cwd"], *paths, *(path for path in sys.path if path not in paths)]
    sys.argv = [request["module"], *request["arguments"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=False)


def fork_command(request: Mapping[str, Any]) -> int:
    child = os.fork()
    if not child:
        run_command(request)
        sys.exit()  # as any process ends, so that what is to be done at the exit is done
    return child


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    import_everything()
    codes: dict[int, int] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            pid = request["wait"]
            if pid not in codes and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                codes[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            answer = codes.get(pid)
        else:
            answer = fork_command(request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
