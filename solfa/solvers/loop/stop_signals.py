"""Stop a run on a signal: signals are noted when they arrive and handled between two updates."""

import signal
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from lightning.fabric import Fabric


class Stopped(Exception):  # noqa: N818 - nothing is wrong: it ends a run as asked
    """Raised between two updates, once every process of the run knows that it must stop."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class StopSignals:
    """While entered, SIGTERM and SIGINT are noted for later; a second signal of the same kind takes effect at once.

    Ctrl-C reaches every process in a terminal, and their parent may add a SIGTERM: the two count as one request.
    """

    def __init__(self) -> None:
        self.number = 0
        """The signal that arrived; 0 if none has."""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        self.number = 0
        for number in (signal.SIGTERM, signal.SIGINT):
            try:
                self._before[number] = signal.signal(number, self._note)
            except ValueError:
                # Only the main thread can handle signals; elsewhere (in a notebook) they are not noted.
                break
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        signal.signal(number, self._before[number])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


def agree(fabric: "Fabric", *wishes: int) -> list[int]:
    """Share the maximum of each request among all processes, so that they act alike at the same step."""
    if fabric.world_size == 1:
        return list(wishes)
    values = torch.tensor(wishes, device=fabric.device)
    torch.distributed.all_reduce(values, torch.distributed.ReduceOp.MAX)
    return [int(value) for value in values.tolist()]
