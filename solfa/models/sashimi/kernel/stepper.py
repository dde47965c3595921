"""Step a SaShiMi with the C kernel: when it can be used, and how to call it."""

import ctypes
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models.sashimi.heads import CategoricalHead, DmlHead, OutputHead
from solfa.models.sashimi.kernel.clip_networks import ThreadClips, pack_weights
from solfa.models.sashimi.kernel.library import load_kernel
from solfa.models.sashimi.network import Sashimi, SashimiState
from solfa.nn.kernels.library import NoKernelError
from solfa.ops.temperature import TemperatureSemantics, check_temperature

_logger = logging.getLogger(__name__)


class Drawn(NamedTuple):
    """What was drawn, and its log-probabilities at temperature 1, in nats."""

    classes: Int64[Tensor, "B N"]
    log_prob: Float32[Tensor, "B N"]


def fused_stepper(model: Sashimi, head: OutputHead, batch: int) -> "FusedStepper | None":
    """Pack a model to generate `batch` clips at once; None, and a reason in the log, if PyTorch has to step it."""
    try:
        _check(model)
        return FusedStepper(load_kernel(), model, head, batch)
    except NoKernelError as reason:
        _logger.warning("generating with PyTorch instead of the C kernel, which is many times slower: %s", reason)
        return None


def _check(model: Sashimi) -> None:
    for name, parameter in model.named_parameters():
        if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
            found = f"{str(parameter.dtype).removeprefix('torch.')} on {parameter.device}"
            raise NoKernelError(f"the kernel needs float32 on a CPU, but {name} is {found}")
    if model.config.norm == "per_channel":
        raise NoKernelError("the kernel has norms with one gain for all channels, but the model has one per channel")
    if model.training and model.config.dropout > 0:
        raise NoKernelError("the kernel has no dropout, but the model is in training mode; call model.eval()")


class FusedStepper:
    """A network that has read some classes and can continue. Its weights are a copy made when it was created.

    Clips are divided among torch's threads; a clip's numbers depend neither on the division nor on other clips.
    """

    def __init__(self, kernel: ctypes.CDLL, model: Sashimi, head: OutputHead, batch: int) -> None:
        self._kernel, self._model, self._head, self.batch = kernel, model, head, batch
        weights = pack_weights(model)
        num_groups = max(1, min(batch, torch.get_num_threads()))
        borders = [batch * at // num_groups for at in range(num_groups + 1)]
        self._slices = [slice(*pair) for pair in pairwise(borders)]
        self._groups = [ThreadClips(model, head, weights, part.stop - part.start) for part in self._slices]
        self._threads = ThreadPoolExecutor(num_groups) if num_groups > 1 else None
        self.load(model.initial_state(batch))

    @torch.no_grad()
    def load(self, state: SashimiState) -> None:
        """Continue from another state: `load(model.forward_with_state(prompt)[1])`."""
        for group, clips in zip(self._groups, self._slices, strict=True):
            group.load(state, clips)
            self._kernel.solfa_begin(ctypes.byref(group.network))

    def step(self, classes: Int64[Tensor, "B"]) -> Float32[Tensor, "B P"]:
        """Read one class of each clip and return the parameters of what follows, as `Sashimi.step` does."""
        self._check_classes(classes)
        classes, outputs = classes.contiguous(), torch.empty(self.batch, self._model.projection.out_features)

        def read(group: ThreadClips, clips: slice) -> None:
            network = ctypes.byref(group.network)
            self._kernel.solfa_read(network, classes[clips].data_ptr(), outputs[clips].data_ptr())

        self._for_each_group(read)
        return outputs

    @torch.no_grad()
    def run(
        self,
        first_classes: Int64[Tensor, "B"],
        uniforms: Float[Tensor, "B N U"],
        temperature: float = 1.0,
        semantics: TemperatureSemantics = "heuristic",
    ) -> Drawn:
        """Read a class, draw the next, read it, and so on, N times; the last one drawn is not read.

        These are the head's draws with the same numbers: `first_classes` are `model.start(batch)`, or the last ones
        drawn. Draws that need the probabilities of all classes of a mixture are done by the head, and slower.
        """
        check_temperature(temperature)
        self._check_classes(first_classes)
        whole_pmf = temperature == 0 or (semantics == "exact" and temperature != 1)
        if isinstance(self._head, CategoricalHead) or (isinstance(self._head, DmlHead) and not whole_pmf):
            return self._run(first_classes.contiguous(), uniforms, temperature)
        drawn, log_probs, classes = [], [], first_classes
        for numbers in uniforms.unbind(1):
            outputs = self.step(classes)
            classes = self._head.draw_with(outputs, numbers, temperature, semantics)
            drawn.append(classes)
            log_probs.append(self._head.log_prob(outputs[:, None], classes[:, None])[:, 0])
        return Drawn(torch.stack(drawn, dim=1), torch.stack(log_probs, dim=1))

    def _run(self, first: Int64[Tensor, "B"], uniforms: Float[Tensor, "B N U"], temperature: float) -> Drawn:
        num_steps = uniforms.shape[1]
        classes = torch.empty(self.batch, num_steps, dtype=torch.int64)
        log_prob = torch.empty(self.batch, num_steps)
        plain = uniforms[..., 0].double().contiguous()
        noise = _mixture_noise(uniforms) if isinstance(self._head, DmlHead) else torch.empty(self.batch, 0)

        def run(group: ThreadClips, clips: slice) -> None:
            numbers = (num_steps, plain[clips].data_ptr(), noise[clips].data_ptr(), temperature)
            results = (classes[clips].data_ptr(), log_prob[clips].data_ptr())
            self._kernel.solfa_run(ctypes.byref(group.network), first[clips].data_ptr(), *numbers, *results)

        self._for_each_group(run)
        return Drawn(classes, log_prob)

    def _for_each_group(self, work: Callable[[ThreadClips, slice], None]) -> None:
        if self._threads is None:
            work(self._groups[0], self._slices[0])
        else:
            # ctypes releases the GIL, so that threads run in parallel.
            list(self._threads.map(work, self._groups, self._slices))

    def _check_classes(self, classes: Int64[Tensor, "B"]) -> None:
        last = self._model.num_classes
        if len(classes) != self.batch or int(classes.min()) < 0 or int(classes.max()) > last:
            raise ConfigError(
                f"classes: expected {self.batch} from 0 to {last}, found {len(classes)} from "
                f"{int(classes.min())} to {int(classes.max())}; {last} is the start of a clip"
            )


def _mixture_noise(uniforms: Float[Tensor, "B N U"]) -> Float32[Tensor, "B N U"]:
    """Turn uniform numbers into Gumbel ones, to choose a component, and a logistic one, to draw from it."""
    gumbel = -(-uniforms[..., :-1].log()).log()
    return torch.cat([gumbel, uniforms[..., -1:].logit()], dim=-1).float()
