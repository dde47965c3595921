"""Draw waveforms with a SaShiMi, one class after another, and compute how probable they are.

    start class, prompt ──convolution──► state ──► step ──► draw a class ──► step ──► draw a class ──► ...
                                                   └────────────── a block ──────────────┘ ──► the listener

Everything after the prompt is drawn in blocks, and each block is handed over as soon as it is ready. The
log-probability is that of the model itself, at temperature 1, whatever temperature the classes were drawn with.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Float32, Float64, Int64
from pydantic import Field
from torch import Tensor

from solfa.config import Config
from solfa.errors import ConfigError
from solfa.models.sashimi.heads import OutputHead
from solfa.models.sashimi.kernel.stepper import fused_stepper
from solfa.models.sashimi.network import Sashimi, SashimiState
from solfa.ops.temperature import TemperatureSemantics, draw_uniforms

BLOCK = 256
"""Samples drawn before they are handed over; random numbers are always drawn for whole blocks, so that the first
seconds of a clip are the same however long it gets."""
_PROMPT_PIECE = 1 << 16
"""Samples of a prompt to read at once: the network produces numbers for every one of them."""


class WaveformSampling(Config):
    """How the samples of a waveform are drawn."""

    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """0 takes the most probable class."""
    semantics: TemperatureSemantics = "heuristic"
    """What a temperature other than 1 means for a mixture of logistics; `exact` works with up to 1024 classes."""


class GeneratedClasses(NamedTuple):
    """Waveforms as classes, including their prompts, and the log-probability of what was drawn."""

    classes: Int64[Tensor, "B N"]
    log_prob: Float64[Tensor, "B"]
    """The log-probability of everything drawn, given the prompt, in nats."""


@runtime_checkable
class ClassStepper(Protocol):
    """A network that has read some classes and can continue."""

    def run(
        self,
        first_classes: Int64[Tensor, "B"],
        uniforms: Float[Tensor, "B N U"],
        temperature: float = 1.0,
        semantics: TemperatureSemantics = "heuristic",
    ) -> tuple[Int64[Tensor, "B N"], Float32[Tensor, "B N"]]:
        """Read a class of every clip, draw the next, read it, and so on, N times; the last one drawn is not read.

        Returns the classes and their log-probabilities at temperature 1.
        """
        ...


class EagerStepper:
    """Steps by calling the network itself."""

    def __init__(self, model: Sashimi, head: OutputHead, state: SashimiState) -> None:
        self._model, self._head, self._state = model, head, state

    def run(
        self,
        first_classes: Int64[Tensor, "B"],
        uniforms: Float[Tensor, "B N U"],
        temperature: float = 1.0,
        semantics: TemperatureSemantics = "heuristic",
    ) -> tuple[Int64[Tensor, "B N"], Float32[Tensor, "B N"]]:
        """Read and draw in turn."""
        classes, seen, drawn = first_classes, [], []
        for numbers in uniforms.unbind(1):
            outputs, self._state = self._model.step(classes, self._state)
            classes = self._head.draw_with(outputs, numbers, temperature, semantics)
            seen.append(outputs)
            drawn.append(classes)
        block = torch.stack(drawn, dim=1)
        return block, self._head.log_prob(torch.stack(seen, dim=1), block)


def fastest_stepper(model: Sashimi, head: OutputHead, state: SashimiState) -> ClassStepper:
    """Step with the compiled kernel if it can be used, and with the network itself otherwise."""
    fused = fused_stepper(model, head, len(state.past))
    if fused is None:
        return EagerStepper(model, head, state)
    fused.load(state)
    return fused


MakeStepper = Callable[[Sashimi, OutputHead, SashimiState], ClassStepper]
OnBlock = Callable[[Int64[Tensor, "B n"], int, int], None]
"""Called with the next classes of all clips, how many there are so far, and the total."""


def generate_classes(
    model: Sashimi,
    head: OutputHead,
    num_samples: int,
    settings: WaveformSampling,
    seeds: Sequence[int],
    prompt: Int64[Tensor, "B N0"] | None = None,
    on_block: OnBlock | None = None,
    make_stepper: MakeStepper = fastest_stepper,
) -> GeneratedClasses:
    """Draw one clip of `num_samples` per seed, including the prompt; each has its own random numbers.

    >>> from solfa.models import CategoricalHead, Sashimi, SashimiConfig, WaveformSampling, generate_classes
    >>> head = CategoricalHead(num_classes=16)
    >>> model = Sashimi(SashimiConfig(num_classes=16, dim=8, n_layers=1, d_state=4), head.num_parameters)
    >>> drawn = generate_classes(model, head, 32, WaveformSampling(temperature=0.9), seeds=[1, 2])
    >>> drawn.classes.shape, drawn.log_prob.shape
    (torch.Size([2, 32]), torch.Size([2]))
    """
    _check(head, num_samples, len(seeds), prompt)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    log_prob = torch.zeros(len(seeds), dtype=torch.float64)
    with _for_generating(model):
        inputs = model.start(len(seeds))[:, None]
        if prompt is not None:
            inputs = torch.cat([inputs, prompt.to(inputs)], dim=1)
        stepper = make_stepper(model, head, _read(model, inputs[:, :-1]))
        pieces, last, done = [inputs[:, 1:]], inputs[:, -1], inputs.shape[1] - 1
        if done and on_block is not None:
            on_block(pieces[0], done, num_samples)
        while done < num_samples:
            uniforms = torch.stack([draw_uniforms((BLOCK, head.num_uniforms), generator) for generator in generators])
            wanted = uniforms[:, : num_samples - done]
            block, nats = stepper.run(last, wanted, settings.temperature, settings.semantics)
            log_prob = log_prob + nats.cpu().double().sum(dim=1)
            pieces.append(block)
            last, done = block[:, -1], done + block.shape[1]
            if on_block is not None:
                on_block(block, done, num_samples)
    return GeneratedClasses(torch.cat(pieces, dim=1), log_prob)


def _read(model: Sashimi, inputs: Int64[Tensor, "B N0"]) -> SashimiState:
    """Read what is known by convolution and return the state after it."""
    state = model.initial_state(len(inputs))
    for start in range(0, inputs.shape[1], _PROMPT_PIECE):
        _, state = model.forward_with_state(inputs[:, start : start + _PROMPT_PIECE], state)
    return state


@contextmanager
def _for_generating(model: Sashimi) -> Iterator[None]:
    """Switch off gradients and dropout, discretise the layers once, and restore the model afterwards."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with torch.inference_mode(), model.fixed():
            yield
    finally:
        for module in training:
            module.training = True


def _check(head: OutputHead, num_samples: int, num_clips: int, prompt: Int64[Tensor, "B N0"] | None) -> None:
    if num_clips < 1 or num_samples < 1:
        raise ConfigError(
            f"generate: expected at least one seed and one sample, found {num_clips} and {num_samples}; "
            "pass one seed per clip and the number of samples"
        )
    if prompt is None:
        return
    if len(prompt) != num_clips or prompt.shape[1] > num_samples:
        raise ConfigError(
            f"generate: expected a prompt of {num_clips} clips and at most {num_samples} samples, found "
            f"{list(prompt.shape)}; cut the prompt, or generate more samples"
        )
    if prompt.numel() and not 0 <= int(prompt.min()) <= int(prompt.max()) < head.num_classes:
        raise ConfigError(
            f"generate: expected a prompt of classes from 0 to {head.num_classes - 1}, found {int(prompt.min())} to "
            f"{int(prompt.max())}; encode the prompt with the training data's codec"
        )
