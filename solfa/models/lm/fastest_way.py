"""Choose what computes with a layout of weights by measuring it, once per machine, and remember the choice.

Which kernel is fastest depends on the processor, the compiler and the version of torch, and no table of processors
stays true. So a decoder of three layers of MusicGen-small's width takes a few steps in every way, with two rows (a
guided clip) and with 32 (sixteen of them), and the way with the least time, as a share of the best for each, is written
to a file beside the compiled kernels (`machine_memory`), so that a machine generates with the same numbers from then
on; remove it to measure again.
"""

import logging
import platform
import time
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch

from solfa.errors import ConfigError
from solfa.models.lm.conditions import Conditions
from solfa.models.lm.network import CodecLM, CodecLMConfig
from solfa.models.lm.weight_layouts import SMALL_MODEL, WAYS, Way, WeightLayout, lay_out_weights
from solfa.nn.kernels.library import NoKernelError
from solfa.nn.kernels.machine_memory import finding_file, recall, remember
from solfa.nn.kernels.structures import load_decoder

_logger = logging.getLogger(__name__)

_PROBE = CodecLMConfig(num_codebooks=1, codebook_size=1024, dim=1024, num_layers=3, num_heads=16, ffn_dim=4096)
_ROWS = (2, 32)
_ROUNDS = 5

Seconds = Mapping[Way, tuple[float, ...]]
"""How long a step takes in each way, for each number of rows."""


def fastest_way(layout: WeightLayout, num_weights: int) -> Way:
    """Return what should compute with such weights on this machine; the first call of a machine takes seconds."""
    if num_weights < SMALL_MODEL:
        return "kernel"  # not worth the measurement
    try:
        path = choice_file(layout, load_decoder().name)
    except NoKernelError:
        return "kernel"  # whoever lays out the weights says why there is none
    way = (recall(path) or remember(path, _measured(layout, path))).get("way")
    for known in WAYS:
        if way == known:
            return known
    raise ConfigError(f"{path}: expected `way` to be {' or '.join(WAYS)}, found {way!r}; remove it")


def choice_file(layout: WeightLayout, kernel: str) -> Path:
    """Name the file that has the choice of this machine, these versions and this number of threads."""
    return finding_file(f"way-{layout}", layout, kernel, _ROWS)


def choose_way(seconds: Seconds) -> Way:
    """Choose the way that is nearest to the fastest one, over all numbers of rows."""
    best = [min(times) for times in zip(*seconds.values(), strict=True)]
    return min(seconds, key=lambda way: sum(mine / least for mine, least in zip(seconds[way], best, strict=True)))


@torch.inference_mode()
def measure_ways(layout: WeightLayout) -> Seconds:
    """Time steps of a small decoder in every way that this machine has, in turn; medians."""
    with torch.random.fork_rng(devices=[]):
        models: dict[Way, CodecLM] = {}
        for way in WAYS:
            torch.manual_seed(0)
            try:
                models[way] = lay_out_weights(CodecLM(_PROBE).eval(), layout, way)
            except ConfigError as error:
                _logger.info("%s weights in the way %s: %s", layout, way, error)
    taken: dict[tuple[Way, int], list[float]] = {case: [] for case in product(models, _ROWS)}
    for turn in range(_ROUNDS + 1):
        for way, rows in taken:
            seconds = _time_step(models[way], rows)
            if turn:  # the first touches memory for the first time
                taken[way, rows].append(seconds)
    return {way: tuple(median(taken[way, rows]) for rows in _ROWS) for way in models}


def _time_step(model: CodecLM, rows: int) -> float:
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    cache, tokens = model.new_cache(rows, 2), torch.zeros(rows, 1, 1, dtype=torch.int64)
    model(tokens, Conditions.none(), cache)
    start = clock()
    model(tokens, Conditions.none(), cache)
    return clock() - start


def _measured(layout: WeightLayout, path: Path) -> dict[str, Any]:
    seconds = measure_ways(layout)
    way = choose_way(seconds)
    told = ", ".join(f"{name} {times[0] * 1e3:.1f} ms" for name, times in seconds.items())
    _logger.info("measured how to generate on this machine (only once): %s; %s is kept in %s", told, way, path)
    return {"way": way, "rows": _ROWS, "seconds": seconds, "processor": platform.processor() or platform.machine()}
