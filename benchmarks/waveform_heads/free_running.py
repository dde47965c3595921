"""What a model does when it hears nothing but itself: how loud it gets, how much it clips, what its draws cost it.

A model reads the beginning of a held-out recording and draws on, at temperature 1. What it drew is compared with how
the recording really goes on: the difference of their loudness (root mean square over all clips), the share of outermost
classes, and bits per sample, the model's own of its draws and of the recording. A model that has become something else
than its data is louder, clips, or is surprised by itself.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models import OutputHead, Sashimi, WaveformSampling, generate_classes, previous_classes
from solfa.ops.class_grid import Grid

from .recordings import Recorded

GOAL_DB, GOAL_CLIPPED, GOAL_BITS = 1.5, 0.001, 0.5


@dataclass(frozen=True)
class FreeRun:
    """What was measured."""

    louder_db: float
    """Than the recordings, over all clips; a 95 % interval of clips is `louder_db` +- `half_db`."""
    half_db: float
    by_second_db: tuple[float, ...]
    """The same for each second that was drawn."""
    clipped: float
    clipped_really: float
    """The same share of the recordings."""
    own_bits: float
    real_bits: float

    @property
    def misses(self) -> list[str]:
        """Name the goals that were missed."""
        found = {
            "loudness": abs(self.louder_db) > GOAL_DB,
            "clipping": self.clipped - self.clipped_really > GOAL_CLIPPED,
            "bits": self.own_bits - self.real_bits > GOAL_BITS,
        }
        return [name for name, is_missed in found.items() if is_missed]


def continuations(recordings: Sequence[Recorded], num_clips: int, num_samples: int) -> Tensor:
    """Cut as many clips from the first recordings that are long enough, `[B, N]`: the middle of each, or several.

    Several are at equal distances, and only cut where there are fewer recordings than clips.
    """
    long_enough = [recording.audio for recording in recordings if len(recording.audio) >= num_samples]
    if not long_enough:
        raise ConfigError(f"expected held-out recordings of {num_samples} samples or more, found none; use --seconds")
    each = math.ceil(num_clips / len(long_enough))
    places = [(audio, place) for audio in long_enough for place in range(1, each + 1)][:num_clips]
    starts = [(len(audio) - num_samples) * place // (each + 1) for audio, place in places]
    return torch.stack([audio[start : start + num_samples] for (audio, _), start in zip(places, starts, strict=True)])


@torch.no_grad()
def run_freely(
    network: Sashimi, head: OutputHead, grid: Grid, audio: Tensor, prompt_samples: int, sample_rate: int
) -> FreeRun:
    """Continue each clip of `audio` [B, N] from its first samples."""
    classes = grid.to_classes(audio)
    network.eval()
    nats = [
        -head.log_prob(network(previous_classes(row, network.start(1))), row)[0, prompt_samples:]
        for row in classes.split(1)
    ]
    seeds, prompt = list(range(len(classes))), classes[:, :prompt_samples]
    drawn = generate_classes(network, head, classes.shape[1], WaveformSampling(), seeds, prompt)
    own, real = (grid.to_audio(part)[:, prompt_samples:].double() for part in (drawn.classes, classes))
    powers = own.square().mean(dim=1)
    db, spread = decibels(own) - decibels(real), float(powers.std() / powers.mean()) if len(own) > 1 else math.inf
    return FreeRun(
        louder_db=db,
        # The error of a mean of powers, in decibels.
        half_db=1.96 * spread / math.sqrt(len(own)) * 10 / math.log(10),
        by_second_db=tuple(decibels(part) - decibels(real) for part in own.split(sample_rate, dim=1)),
        clipped=outermost(drawn.classes[:, prompt_samples:], grid),
        clipped_really=outermost(classes[:, prompt_samples:], grid),
        own_bits=-float(drawn.log_prob.sum()) / own.numel() / math.log(2),
        real_bits=float(torch.stack(nats).double().mean()) / math.log(2),
    )


def decibels(audio: Tensor) -> float:
    return 10 * math.log10(float(audio.square().mean()))


def outermost(classes: Tensor, grid: Grid) -> float:
    """Give the share of the two classes that stand for everything beyond the line."""
    return float(((classes == 0) | (classes == grid.num_classes - 1)).double().mean())


def row(title: str, seed: int, run: FreeRun) -> str:
    """Write a line of the table."""
    seconds = ", ".join(f"{value:+.1f}" for value in run.by_second_db)
    cells = (
        f"{title} | {seed} | {run.louder_db:+.2f} ± {run.half_db:.2f} | {seconds} | {100 * run.clipped:.3f} % | "
        f"{run.own_bits:.3f} | {run.real_bits:.3f} | {run.own_bits - run.real_bits:+.3f} | "
        f"{', '.join(run.misses) or 'none'}"
    )
    return f"| {cells} |"
