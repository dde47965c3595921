"""One update of the parameters: backward, clip, step. A value that is not finite stops it before anything changes."""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from solfa.solvers.fabric.wrappers import is_wrapped_module
from solfa.solvers.loop.agreement import agree
from solfa.solvers.optim.optimizer import OptimConfig
from solfa.solvers.optim.schedules import Schedule

if TYPE_CHECKING:
    from lightning_fabric import Fabric


logger = logging.getLogger(__name__)


class NotFinite(Exception):  # noqa: N818 - becomes a sentence where the clips of the batch are known
    """A loss or gradient is not finite."""

    def __init__(self, name: str, value: Tensor) -> None:
        self.found = f"expected a finite {name}, found {float(value.detach())}"
        super().__init__(self.found)


def step_down(
    fabric: "Fabric",
    loss: Tensor,
    module: nn.Module,
    optimizer: Any,
    config: OptimConfig,
    *,
    accumulates: bool,
    skips_overflow: bool,
) -> Tensor | None:
    """Accumulate gradients and, after the update's last batch, take a step; return the norm before clipping.

    Losses scaled for float16 overflow now and then: such an update is skipped and the scale lowered.
    """
    (broken,) = agree(fabric, int(not _is_finite(loss)))
    if broken:
        raise NotFinite("loss", loss)
    fabric.backward(loss / config.accumulate)
    if accumulates:
        return None
    norm = None
    if config.clip_norm is not None:
        norm = fabric.clip_gradients(module, optimizer, max_norm=config.clip_norm, error_if_nonfinite=False)
        assert isinstance(norm, Tensor)
        if not skips_overflow and not _is_finite(norm):  # the same on every process, so no need to communicate
            raise NotFinite("norm of the gradient", norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm


@contextmanager
def unsynchronised(fabric: "Fabric", modules: Iterable[nn.Module]) -> Iterator[None]:
    """Do not synchronise gradients between processes until the last batch of an update."""
    with ExitStack() as stack:
        for module in modules if fabric.world_size > 1 else ():
            if is_wrapped_module(module):
                stack.enter_context(fabric.no_backward_sync(module))  # type: ignore[arg-type]
        yield


def _is_finite(value: Tensor) -> bool:
    return bool(torch.isfinite(value.detach()).all())


def catch_up(schedules: Collection[Schedule], positions: Sequence[int]) -> None:
    """Advance the schedules if a step left all of them at `positions`: it stepped its optimisers itself."""
    if not schedules or [schedule.updates for schedule in schedules] != list(positions):
        return
    if not any(positions):
        logger.warning(
            "run_step does not call self.update(loss): the learning rate follows its schedule, but optim.clip_norm and "
            "optim.accumulate have no effect, and a loss that is not finite does not stop the run"
        )
    for schedule in schedules:
        schedule.step()
