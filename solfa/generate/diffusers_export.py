"""Write a flow model as a pipeline of diffusers: its network, the codec as its autoencoder, and its text encoder.

Only what the pipelines compute in the same way is written; everything else is refused, with what to set instead.
"""

import json
from pathlib import Path
from typing import Any

import diffusers
from torch import nn

from solfa.codecs.families.oobleck import OobleckCodec
from solfa.codecs.families.same_autoencoder import SameCodec
from solfa.codecs.protocol import Codec
from solfa.errors import ConfigError
from solfa.files.whole_files import new_directory
from solfa.generate.latent_model import LatentModel
from solfa.generate.model import build_model, find_folder
from solfa.generate.trained_folder import read_trained
from solfa.models.conditioners.text import TextConditioner
from solfa.models.flow.config import StableAudio3Config
from solfa.models.flow.network import FlowNetwork
from solfa.models.flow.pipeline_files import (
    MODEL_INDEX,
    OPEN_PIPELINE,
    THREE_PIPELINE,
    pipeline_text,
    scheduler_settings,
    write_network,
)
from solfa.pretrained.hub import quiet_loading


def export_as_diffusers(location: str | Path, directory: str | Path) -> str:
    """Write a flow model as a folder that `StableAudioPipeline` or `StableAudio3Pipeline` loads; say what it is."""
    generator = build_model(read_trained(find_folder(location)), device="cpu").generator
    if not isinstance(generator, LatentModel):
        raise ConfigError(
            f"{location}: only a flow model can be written as a pipeline of diffusers, and this is another kind; "
            "export it without a format"
        )
    network, where = generator.network, f"{location}: as a pipeline of diffusers"
    text = pipeline_text(network, where)
    _check_network(network, text, where)
    autoencoder = _autoencoder(generator.codec, network, where)
    is_three = isinstance(network.config, StableAudio3Config)
    name = THREE_PIPELINE if is_three else OPEN_PIPELINE
    parts = {"transformer": network.dit.dit, "vae": autoencoder}
    parts["duration_embedder" if is_three else "projection_model"] = (
        network.dit.seconds[0] if is_three else diffusers.StableAudioProjectionModel
    )
    with new_directory(Path(directory)) as folder, quiet_loading("transformers"), quiet_loading("diffusers"):
        projection = text.output_proj if isinstance(text.output_proj, nn.Linear) else None
        write_network(network, folder, projection, text.encoder.width)
        autoencoder.save_pretrained(folder / "vae")
        encoder, tokenizer = text.encoder.save_parts(
            folder / "text_encoder", folder / "tokenizer", network.config.context_tokens
        )
        index = {
            "_class_name": name,
            "_diffusers_version": diffusers.__version__,
            **{role: _class(part) for role, part in parts.items()},
            "scheduler": ["diffusers", scheduler_settings(network)["_class_name"]],
            "text_encoder": ["transformers", encoder],
            "tokenizer": ["transformers", tokenizer],
        }
        (folder / MODEL_INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    return _told(network, name)


def _check_network(network: FlowNetwork, text: TextConditioner, where: str) -> None:
    config = network.config
    is_three = isinstance(config, StableAudio3Config)
    timing = ("seconds_total",) if is_three else ("seconds_start", "seconds_total")
    checks = {
        "model.normalise": (not network.mean.any() and bool((network.std == 1).all()), "false, and not a scale"),
        "model.context_tokens": (config.context_tokens is not None, "a number of tokens"),
        "model.timing": (config.timing == timing, f"[{','.join(timing)}]"),
        "model.objective": (config.objective == ("rectified_flow" if is_three else "v"), "that of its pipeline"),
        "model.norm_eps": (not isinstance(config, StableAudio3Config) or config.norm_eps == 1e-6, "1e-6"),
        "conditioner project": (
            not is_three or not text.config.project,
            "false, since there is no place for a projection",
        ),
        "conditioner project, model.cond_dim": (
            is_three or text.config.project == (text.encoder.width != config.cond_dim),
            "a projection exactly if the text encoder has another width",
        ),
    }
    for name, (fits, expected) in checks.items():
        if not fits:
            raise ConfigError(f"{where}, expected {name} to be {expected}; change that, or export it without a format")


def _autoencoder(codec: Codec, network: FlowNetwork, where: str) -> Any:
    is_three = isinstance(network.config, StableAudio3Config)
    kind = f"{'AutoencoderSAME' if is_three else 'AutoencoderOobleck'} of diffusers"
    if not isinstance(codec, SameCodec if is_three else OobleckCodec):
        raise ConfigError(
            f"{where}, expected the latents of an {kind}, since model.kind is {network.config.kind}, found those of "
            f"{codec.spec}; export it without a format"
        )
    misfits = list(codec.misfits) if isinstance(codec, OobleckCodec) else []
    if (precision := codec.description["precision"]) != "fp32":
        misfits.append(f'precision "{precision}" instead of "fp32"')
    if misfits:
        raise ConfigError(
            f"{where}, expected a codec that {kind} can represent, found {codec.spec} with {', '.join(misfits)}; "
            "export it without a format"
        )
    return codec.autoencoder


def _class(part: Any) -> list[str]:
    kind = part if isinstance(part, type) else type(part)
    # Parts that belong to one pipeline are named by its package.
    library = kind.__module__.split(".")
    return [library[2] if library[1] == "pipelines" else "diffusers", kind.__name__]


def _told(network: FlowNetwork, name: str) -> str:
    told = f"a {name} of diffusers"
    if network.says_nothing_is_known:
        return told
    return (
        f"{told}; its network is also told that nothing of a clip is given, which {name} leaves out: draw with "
        "StableAudio3InpaintPipeline and a mask of zeros to get what you hear here"
    )
