"""What a model does when it hears nothing but itself: how loud it gets, how much it clips, what its draws cost it.

A model reads the beginning of a held-out recording and draws on, at temperature 1. What it drew is compared with how
the recording really goes on: the difference of their loudness (root mean square over all clips), the share of outermost
classes, and bits per sample, the model's own of its draws and of the recording. A model that has become something else
than its data is louder, clips, or is surprised by itself. Intervals are of 95 %, over recordings, because clips of one
recording are not independent. They are about which recordings were chosen, not about other seeds of a network.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from solfa.errors import ConfigError
from solfa.models import OutputHead, Sashimi, WaveformSampling, generate_classes, previous_classes
from solfa.ops.class_grid import Grid

from .paths import stepper_of
from .recordings import Excerpts, Recorded
from .report import paired_interval

GOAL_DB, GOAL_CLIPPED, GOAL_BITS = 1.5, 0.001, 0.5


@dataclass(frozen=True)
class FreeRun:
    """What was measured."""

    louder_db: float
    """Than the recordings, over all clips; the interval is `louder_db` +- `half_db`."""
    half_db: float
    by_second_db: tuple[float, ...]
    """The same for each second that was drawn."""
    clipped: float
    clipped_really: float
    """The same share of the recordings."""
    own_bits: float
    real_bits: float
    half_bits: float
    """Of the interval of the difference of the two."""

    @property
    def misses(self) -> list[str]:
        """Name the goals that were missed."""
        found = {
            "loudness": abs(self.louder_db) > GOAL_DB,
            "clipping": self.clipped - self.clipped_really > GOAL_CLIPPED,
            "bits": self.own_bits - self.real_bits > GOAL_BITS,
        }
        return [name for name, is_missed in found.items() if is_missed]


def continuations(recordings: Sequence[Recorded], num_clips: int, num_samples: int) -> Excerpts:
    """Cut clips from recordings that are long enough: of as many as possible, at equal distances, and within each.

    The first ones of a list would be those of one book or album.
    """
    long_enough = [recording.audio for recording in recordings if len(recording.audio) >= num_samples]
    if not long_enough:
        raise ConfigError(f"expected held-out recordings of {num_samples} samples or more, found none; use --seconds")
    sources = [clip * len(long_enough) // num_clips for clip in range(num_clips)]
    clips = []
    for source in sorted(set(sources)):
        audio, taken = long_enough[source], sources.count(source)
        starts = [(len(audio) - num_samples) * place // (taken + 1) for place in range(1, taken + 1)]
        clips += [audio[start : start + num_samples] for start in starts]
    return Excerpts(torch.stack(clips), tuple(sources))


@torch.no_grad()
def run_freely(
    network: Sashimi, head: OutputHead, grid: Grid, clips: Excerpts, prompt_samples: int, sample_rate: int
) -> FreeRun:
    """Continue each clip from its first samples."""
    classes = grid.to_classes(clips.audio)
    network.eval()
    nats = [
        -head.log_prob(network(previous_classes(row, network.start(1))), row)[0, prompt_samples:]
        for row in classes.split(1)
    ]
    seeds, prompt = list(range(len(classes))), classes[:, :prompt_samples]
    stepper = stepper_of(network)
    drawn = generate_classes(network, head, classes.shape[1], WaveformSampling(), seeds, prompt, make_stepper=stepper)
    own, real = (grid.to_audio(part)[:, prompt_samples:].double() for part in (drawn.classes, classes))
    bits_per_nat = 1 / math.log(2)
    own_bits = -drawn.log_prob / own.shape[1] * bits_per_nat
    real_bits = torch.stack(nats).double().mean(dim=1) * bits_per_nat
    # To first order, the logarithm of a ratio of mean powers errs by the mean of their differences, in units of each.
    powers = [(part.square().mean(dim=1) / part.square().mean()).tolist() for part in (own, real)]
    return FreeRun(
        louder_db=decibels(own) - decibels(real),
        half_db=paired_interval(*powers, clips.recordings)[1] * 10 / math.log(10),
        by_second_db=tuple(
            decibels(ours) - decibels(theirs)
            for ours, theirs in zip(own.split(sample_rate, dim=1), real.split(sample_rate, dim=1), strict=True)
        ),
        clipped=outermost(drawn.classes[:, prompt_samples:], grid),
        clipped_really=outermost(classes[:, prompt_samples:], grid),
        own_bits=float(own_bits.mean()),
        real_bits=float(real_bits.mean()),
        half_bits=paired_interval(own_bits.tolist(), real_bits.tolist(), clips.recordings)[1],
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
        f"{run.own_bits:.3f} | {run.real_bits:.3f} | {run.own_bits - run.real_bits:+.3f} ± {run.half_bits:.3f} | "
        f"{', '.join(run.misses) or 'none'}"
    )
    return f"| {cells} |"
