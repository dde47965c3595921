"""What the tasks that model codes share: the data they need, the codec that decodes, clips to ask for."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from pydantic import Field, PositiveInt
from torch import Tensor

from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec, Encoded
from solfa.data.attributes import attribute_rows
from solfa.data.sources.stage_source import OpenedSource
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.generate.codes import ClipRequest
from solfa.generate.request import AudioRequest, read_prompt
from solfa.models.lm.generation import GenerationSettings
from solfa.solvers.config import StageConfig
from solfa.solvers.loop.averages import Metrics
from solfa.store.schema import ArraySpec


class CodesGenerateConfig(StageConfig):
    """What is generated to listen to while training: as many clips, conditioned as those of the generate dataset."""

    num_clips: PositiveInt = 4
    seconds: float = Field(default=10.0, gt=0)
    prompt_seconds: float = Field(default=0.0, ge=0)
    """Begin with so much of the dataset's clip and go on from there."""
    sampling: GenerationSettings = GenerationSettings()


def codes_array(data_facts: Mapping[str, Any]) -> ArraySpec:
    """Read what the dataset's arrays are; anything but codes is an error."""
    array = ArraySpec.model_validate(data_facts["array"])
    if array.kind != "codes" or array.codebook_size is None:
        raise ConfigError(f"dset: a language model reads codes, found {array.kind}; encode with another codec")
    return array


def load_fitting_codec(text: str, array: ArraySpec, device: torch.device) -> Codec:
    """Load the codec that turns generated codes into sound, and check that it fits them."""
    codec = load_codec(text, device=str(device))
    if (codec.num_codebooks, codec.codebook_size) != (array.width, array.codebook_size):
        raise ConfigError(
            f"codec {text}: expected {array.width} codebooks of {array.codebook_size}, found "
            f"{codec.num_codebooks} of {codec.codebook_size}; give the codec of the dataset as codec=TEXT"
        )
    return codec


def check_decoding(codec: Codec, array: ArraySpec) -> None:
    """Decode a frame: a codec that cannot is found out now, not after hours of training."""
    codec.decode(Encoded(torch.zeros(1, 1, array.width, dtype=torch.int64), codec.hop_length))


def mean_nats(nats: Float[Tensor, "K"], mask: Bool[Tensor, "B T"]) -> Metrics:
    """Turn the sums of each codebook's nats into means per frame, and their mean: the loss."""
    per_frame = nats.detach() / mask.sum().clamp(min=1)
    each = {f"ce_q{k + 1}": value for k, value in enumerate(per_frame)} if len(nats) > 1 else {}
    return {"loss": per_frame.mean(), **each}


def with_perplexity(means: Metrics) -> Metrics:
    """Add the perplexity, which is no mean of perplexities."""
    return {**means, "ppl": math.exp(min(means["loss"], 80.0))}


def prompt_codes(request: AudioRequest, codec: Codec, device: torch.device) -> Int64[Tensor, "K T"] | None:
    """Read and encode what a clip is to begin with."""
    if request.prompt is None:
        return None
    audio = torch.from_numpy(read_prompt(request, codec.sample_rate, codec.num_channels))
    return codec.encode(audio[None]).array[0].long().transpose(0, 1).to(device)


def requests_like(
    source: OpenedSource,
    wanted: CodesGenerateConfig,
    frame_rate: float,
    columns: Mapping[str, str],
    seed: Sequence[int],
    device: torch.device,
) -> list[ClipRequest]:
    """Ask for clips like the first ones of a dataset: `columns` say where their attributes come from."""
    prompt_frames = round(wanted.prompt_seconds * frame_rate)
    if prompt_frames and wanted.prompt_seconds >= wanted.seconds:
        raise ConfigError(
            f"generate.prompt_seconds: expected less than seconds ({wanted.seconds}), found {wanted.prompt_seconds}"
        )
    requests = []
    for index in range(min(wanted.num_clips, len(source))):
        clip = source[index]
        (attributes,) = attribute_rows([clip.caption], [clip.metadata], columns)
        codes = torch.from_numpy(clip.array[:prompt_frames].astype(np.int64)).transpose(0, 1)
        requests.append(
            ClipRequest(
                name=f"{index:03d}",
                seconds=wanted.seconds,
                seed=stable_key("generate", *seed, clip.id) % 2**63,
                attributes=attributes,
                prompt=codes.to(device) if prompt_frames else None,
            )
        )
    return requests
