"""What the tasks that model codes share: the loss and its metrics, and the clips to generate during training."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from pydantic import Field, PositiveInt
from torch import Tensor

from solfa.data.attributes import attribute_rows
from solfa.data.batching.collation import Batch
from solfa.data.batching.stage_batches import Batching, PackRows
from solfa.data.sources.stage_source import OpenedSource
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.generate.request import ClipRequest
from solfa.models.lm.generation import GenerationSettings
from solfa.solvers.config import StageConfig
from solfa.solvers.loop.averages import Metrics
from solfa.solvers.standard import StandardSolver


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


def refuse_packing(dataset: Batching | None) -> None:
    """Refuse packed rows, in which each clip has its own caption."""
    if dataset is not None and isinstance(dataset.mode, PackRows):
        raise ConfigError("dataset.mode: packed rows hold several clips, each with its own caption; use crop or pad")


def requests_like(
    source: OpenedSource,
    wanted: CodesGenerateConfig,
    frame_rate: float,
    columns: Mapping[str, str],
    seed: Sequence[int],
) -> list[ClipRequest]:
    """Request clips like the first ones of a dataset; `columns` say where their attributes come from."""
    prompt_frames = round(wanted.prompt_seconds * frame_rate)
    if prompt_frames and wanted.prompt_seconds >= wanted.seconds:
        raise ConfigError(
            f"generate.prompt_seconds: expected less than seconds ({wanted.seconds}), found {wanted.prompt_seconds}"
        )
    requests = []
    for index in range(min(wanted.num_clips, len(source))):
        clip = source[index]
        (attributes,) = attribute_rows([clip.caption], [clip.metadata], columns)
        codes = torch.from_numpy(clip.array[:prompt_frames].astype(np.int64))
        requests.append(
            ClipRequest(
                name=f"{index:03d}",
                seconds=wanted.seconds,
                seed=stable_key("generate", *seed, clip.id) % 2**63,
                conditions=attributes,
                prompt=codes if prompt_frames else None,
            )
        )
    return requests
