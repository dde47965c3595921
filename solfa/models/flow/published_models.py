"""Published flow models: pipelines of diffusers, and checkpoints of stable-audio-tools, as networks of ours.

    DIR or a Hub id                        a pipeline of diffusers: model_index.json, transformer/, ...
    CONFIG.json:checkpoint=FILE, or DIR    stable-audio-tools: model_config.json and its weights

Every tensor is either loaded, or counted among those that other parts of the file hold (the autoencoder).
"""

from pathlib import Path

from torch import nn

from solfa.errors import ConfigError
from solfa.models.flow.foreign_weights import ForeignFlow
from solfa.models.flow.network import FlowNetwork
from solfa.models.flow.pipeline_files import MODEL_INDEX, pipeline_text, read_pipeline
from solfa.models.flow.tools_checkpoint import read_tools
from solfa.pretrained.account import load_exactly
from solfa.pretrained.hub import PIPELINE, local_directory

TOOLS_CONFIG = "model_config.json"
_CHECKPOINT = ":checkpoint="


def read_published(location: str) -> ForeignFlow:
    """Read a published flow model."""
    head, is_named, checkpoint = location.partition(_CHECKPOINT)
    if is_named:
        return read_tools(Path(head).expanduser(), Path(checkpoint).expanduser())
    path = Path(location).expanduser()
    if path.is_file():
        raise ConfigError(
            f"continue_from: {location}: expected an experiment, a checkpoint of ours, a pipeline of diffusers, or a "
            f"{TOOLS_CONFIG} of stable-audio-tools with its weights, as CONFIG.json{_CHECKPOINT}FILE"
        )
    if path.is_dir() and not (path / MODEL_INDEX).is_file() and (path / TOOLS_CONFIG).is_file():
        return read_tools(path / TOOLS_CONFIG, _weights_beside(path))
    return read_pipeline(local_directory(location, what="flow model", wanted=PIPELINE), location)


def load_published(network: FlowNetwork, published: ForeignFlow, location: str) -> str:
    """Copy the weights and the scale of latents into a network of the same settings; say what was loaded."""
    load_dit(network.dit, published, location)
    told = _load_projection(network, published, location)
    network.mean.zero_()
    network.std.fill_(published.scale)
    network.trained_frames.clamp_(min=published.trained_frames)
    left = "".join(f", {count} tensors of its {part} left in the file" for part, count in published.left.items())
    return f"loaded all {len(published.state)} tensors of the network {location}{told}{left}"


def load_dit(dit: nn.Module, published: ForeignFlow, location: str) -> None:
    """Copy the weights into a network of the same settings, every tensor accounted for."""
    load_exactly(dit, {name: tensor.float() for name, tensor in published.state.items()}, f"flow model {location}")


def _load_projection(network: FlowNetwork, published: ForeignFlow, location: str) -> str:
    """Copy the projection of texts, if there is one, and say so; a model that takes texts as they are has none."""
    projection = pipeline_text(network, location).output_proj
    if published.text_projection is None:
        if isinstance(projection, nn.Linear):
            raise ConfigError(
                f"{location}: its network takes the vectors of the text encoder as they are; set project: false for "
                "the text conditioner, as conditioner=stable_audio_open does"
            )
        return ""
    if not isinstance(projection, nn.Linear):
        raise ConfigError(f"{location}: it has a projection of texts; set project: true for the text conditioner")
    load_exactly(projection, published.text_projection, f"flow model {location}")
    return " and its projection of texts"


def _weights_beside(folder: Path) -> Path:
    for name in ("model.safetensors", "model.ckpt"):
        if (folder / name).is_file():
            return folder / name
    raise ConfigError(
        f"continue_from: {folder}: expected model.safetensors or model.ckpt beside {TOOLS_CONFIG}, found neither; name "
        f"the weights as {folder / TOOLS_CONFIG}{_CHECKPOINT}FILE"
    )
