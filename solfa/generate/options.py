"""The options of `generate` and `draw`: how a model draws, instead of how its experiment did."""

from collections.abc import Mapping
from typing import Any, TypedDict, TypeVar

from solfa.config import Config
from solfa.config.base import parse_parameters
from solfa.ops.flow_samplers import Grid, Sampler
from solfa.ops.temperature import TemperatureSemantics

C = TypeVar("C", bound=Config)


class DrawOptions(TypedDict, total=False):
    """What can be said about drawing; a model refuses what its kind does not have (`info.sampling` lists its own).

    A generator of your own may have other options; they are fields of its `sampling`.
    """

    temperature: float
    """Higher is more varied; 0 always takes the most probable."""
    top_k: int
    """Models of codes: keep only the k most probable codes; 0 is off."""
    top_p: float
    """Models of codes: keep only the most probable codes that sum to p; 0 is off."""
    guidance_scale: float
    """Models of codes and of latents: how closely to follow the conditions; 1 is off."""
    candidates: int
    """Language models trained with hidden beginnings: draw so many of each clip, keep what fits its conditions best."""
    guidance_from: float
    """Models of latents: guide from this time on; 1 is noise."""
    guidance_to: float
    """Models of latents: guide until this time; 0 is the clip."""
    guidance_rescale: float
    """Models of latents: how far to undo what guidance does to loudness; 0 is off."""
    sampler: Sampler
    """Models of latents: `euler`, `heun`, `dpm++` or `ping-pong`."""
    steps: int
    """Models of latents: how many steps lead from noise to a clip."""
    grid: Grid
    """Models of latents: where the steps are, `even` in time or in `log_snr`."""
    window_seconds: float | None
    """Models of latents: longer clips are drawn in windows of this length."""
    overlap: float
    """Models of latents: the share of a window that it has in common with the one before."""
    semantics: TemperatureSemantics
    """Models of waveforms: what a temperature means for a mixture, `heuristic` or `exact`."""
    reject_lowest: float
    """Models of waveforms: drop this share of the clips, the least likely."""
    reject_highest: float
    """Models of waveforms: drop this share of the clips, the most likely."""
    sort: bool
    """Models of waveforms: the most likely clip first, with its rank in its name."""


def with_options(sampling: C, options: Mapping[str, Any]) -> C:
    """Override fields of `sampling`; an error names the option as a parameter."""
    return parse_parameters(type(sampling), {**sampling.model_dump(), **options})
