"""What the tasks that model codes share: the loss and its metrics, and the clips to generate during training."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import Field, PositiveInt
from torch import Tensor

from solfa.data.batching.collation import Batch
from solfa.data.sources.stage_source import OpenedSource
from solfa.errors import ConfigError
from solfa.generate.request import ClipRequest
from solfa.models.lm.generation import GenerationSettings
from solfa.solvers.config import StageConfig
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.standard import StandardSolver
from solfa.solvers.tasks.shared_conditions import described_requests
from solfa.store.schema import ArraySpec


class CodesGenerateConfig(StageConfig):
    """Which clips to generate for listening during training, with the conditions of the generate dataset's clips."""

    num_clips: PositiveInt = 4
    seconds: float = Field(default=10.0, gt=0)
    prompt_seconds: float = Field(default=0.0, ge=0)
    """How much of the dataset's clip to start from."""
    sampling: GenerationSettings = GenerationSettings()


def mean_nats(nats: Float[Tensor, "K"], mask: Bool[Tensor, "B T"]) -> Metrics:
    """Turn each codebook's sum of nats into a mean per frame, and average these to the loss."""
    per_frame = nats.detach() / mask.sum().clamp(min=1)
    each = {f"ce_q{k + 1}": value for k, value in enumerate(per_frame)} if len(nats) > 1 else {}
    return {"loss": per_frame.mean(), **each}


def with_perplexity(means: Metrics) -> Metrics:
    """Add the perplexity, which is not a mean of perplexities."""
    return {**means, "ppl": math.exp(min(means["loss"], 80.0))}


def descend(solver: StandardSolver[Any], nats: Float[Tensor, "K"], batch: Batch, metrics: Metrics) -> Metrics:
    """Take a step on the nats of a batch when training, and add the nats per frame to the metrics."""
    if solver.is_training:
        # The mean over the global batch once the processes' gradients are averaged.
        share = solver.fabric.world_size / (len(nats) * batch.global_frames)
        metrics["grad_norm"] = solver.update(nats.sum() * share)
    return {**metrics, **mean_nats(nats, batch.mask)}


def code_bits_per_second(means: Metrics, array: ArraySpec) -> float:
    """Turn the mean nats per code into bits per second of audio."""
    return float(means["loss"]) * array.width * array.frame_rate / math.log(2)


def requests_like(
    source: OpenedSource,
    wanted: CodesGenerateConfig,
    frame_rate: float,
    columns: Mapping[str, str],
    seed: int,
) -> list[ClipRequest]:
    """Request clips like the first ones of a dataset; `columns` say where their attributes come from."""
    prompt_frames = round(wanted.prompt_seconds * frame_rate)
    if prompt_frames and wanted.prompt_seconds >= wanted.seconds:
        raise ConfigError(
            f"generate.prompt_seconds: expected less than seconds ({wanted.seconds}), found {wanted.prompt_seconds}"
        )
    requests = described_requests(source, wanted.num_clips, wanted.seconds, columns, seed)
    if not prompt_frames:
        return requests
    prompts = (source[index].array[:prompt_frames].astype(np.int64) for index in range(len(requests)))
    return [replace(request, prompt=torch.from_numpy(codes)) for request, codes in zip(requests, prompts, strict=True)]
