"""Pipelines of diffusers: read their network, and write one that they load.

model_index.json            which pipeline, and of which parts
transformer/                the network
projection_model/           Stable Audio Open: seconds, and the projection of texts
duration_embedder/          Stable Audio 3: seconds
scheduler/, tokenizer/      read for the objective and for the length of texts
text_encoder/, vae/         not touched here
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diffusers import StableAudioProjectionModel
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.models.conditioners.text import TextConditioner
from solfa.models.flow.config import StableAudio3Config
from solfa.models.flow.foreign_weights import ForeignFlow
from solfa.models.flow.network import FlowNetwork
from solfa.pretrained.directory import read_config, read_json
from solfa.pretrained.tensors import TensorFiles

MODEL_INDEX = "model_index.json"
OPEN_PIPELINE, THREE_PIPELINE = "StableAudioPipeline", "StableAudio3Pipeline"
MOST_TOKENS = 256
"""Stable Audio 3's pipeline cuts texts here, whatever its tokenizer says."""
_NUMBERS = ("start_number_conditioner", "end_number_conditioner")


def read_pipeline(folder: Path, location: str) -> ForeignFlow:
    """Read the network of a pipeline."""
    kind = str(read_json(folder / MODEL_INDEX).get("_class_name"))
    config = read_config(folder / "transformer")
    tensors = {f"dit.{name}": tensor for name, tensor in TensorFiles(folder / "transformer").part("").items()}
    if kind == OPEN_PIPELINE:
        return _read_open(folder, config, tensors)
    # Variants of it (for inpainting, say) have the same parts.
    if kind.startswith("StableAudio3"):
        return _read_three(folder, config, tensors, location)
    raise ConfigError(
        f"continue_from: {location}: expected a {OPEN_PIPELINE} or a {THREE_PIPELINE} of diffusers, found {kind}"
    )


def _read_open(folder: Path, config: Mapping[str, Any], tensors: dict[str, Tensor]) -> ForeignFlow:
    numbers = read_config(folder / "projection_model")
    parts = TensorFiles(folder / "projection_model").part("")
    projection = {
        name.removeprefix("text_projection."): part for name, part in parts.items() if name.startswith("text_")
    }
    for name, part in parts.items():
        if not name.startswith("text_"):
            who, _, rest = name.partition(".")
            tensors[f"seconds.{_NUMBERS.index(who)}.{rest}" if who in _NUMBERS else name] = part
    settings = {
        "kind": "stable_audio_open",
        "objective": _objective(folder),
        "dim": config["num_attention_heads"] * config["attention_head_dim"],
        "num_layers": config["num_layers"],
        "num_heads": config["num_attention_heads"],
        "num_kv_heads": config["num_key_value_attention_heads"],
        "cond_dim": config["cross_attention_input_dim"],
        "cross_dim": config["cross_attention_dim"],
        "timing": ("seconds_start", "seconds_total"),
        "max_seconds": float(numbers["max_value"]),
        "context_tokens": _text_length(folder, 128),
    }
    length = int(config["sample_size"])
    return ForeignFlow(settings, config["in_channels"], tensors, projection or None, 1.0, length, {})


def _read_three(folder: Path, config: Mapping[str, Any], tensors: dict[str, Tensor], location: str) -> ForeignFlow:
    channels = config["io_channels"]
    fixed = {
        "patch_size": 1,
        "timestep_features_dim": 256,
        "local_add_cond_dim": channels + 1,
        "global_cond_dim": config["cond_token_dim"],
    }
    for name, wanted in fixed.items():
        if config[name] != wanted:
            raise ConfigError(f"continue_from: {location}: {name}: expected {wanted}, found {config[name]}")
    for name, part in TensorFiles(folder / "duration_embedder").part("").items():
        tensors[f"seconds.0.{name}"] = part
    settings = {
        "kind": "stable_audio_3",
        "objective": "rectified_flow",
        "dim": config["embed_dim"],
        "num_layers": config["depth"],
        "num_heads": config["num_heads"],
        "cond_dim": config["cond_token_dim"],
        "timing": ("seconds_total",),
        "max_seconds": float(read_config(folder / "duration_embedder")["max_val"]),
        "context_tokens": min(MOST_TOKENS, _text_length(folder, MOST_TOKENS)),
        "num_memory_tokens": config["num_memory_tokens"],
        "differential": config["use_differential_attention"],
        "ffn_ratio": float(config["ff_mult"]),
        "norm_eps": 1e-6,
    }
    return ForeignFlow(settings, channels, tensors, None, 1.0, 0, {})


def _objective(folder: Path) -> str:
    scheduler = read_json(folder / "scheduler" / "scheduler_config.json")
    return "v" if scheduler.get("prediction_type", "v_prediction") == "v_prediction" else "rectified_flow"


def _text_length(folder: Path, default: int) -> int:
    path = folder / "tokenizer" / "tokenizer_config.json"
    found = read_json(path).get("model_max_length") if path.is_file() else None
    return int(found) if isinstance(found, int | float) and found < 10**6 else default


def pipeline_text(network: FlowNetwork, where: str) -> TextConditioner:
    """Find the one condition that these pipelines know besides the seconds: a text for the cross-attention."""
    parts = list(network.conditioners.conditioners.values())
    if len(parts) == 1 and isinstance(parts[0], TextConditioner):
        config = parts[0].config
        if config.fuse == "cross" and config.pool == "tokens":
            return parts[0]
    raise ConfigError(
        f"{where}: pipelines of Stable Audio are conditioned on one text, through cross-attention to its tokens, and "
        f"this model on {', '.join(network.conditioners.conditioners) or 'nothing'}; choose "
        "conditioner=stable_audio_open or conditioner=stable_audio_3"
    )


def write_network(network: FlowNetwork, folder: Path, text_projection: nn.Linear | None, text_width: int) -> None:
    """Write the parts of a pipeline that were trained, as diffusers does."""
    dit: Any = network.dit.dit
    if isinstance(network.config, StableAudio3Config):
        network.dit.seconds[0].save_pretrained(folder / "duration_embedder")  # type: ignore[operator]
    else:
        dit.register_to_config(sample_size=int(network.trained_frames) or dit.config.sample_size)
        _projection(network, text_projection, text_width).save_pretrained(folder / "projection_model")
    dit.save_pretrained(folder / "transformer")
    scheduler = folder / "scheduler" / "scheduler_config.json"
    scheduler.parent.mkdir()
    scheduler.write_text(json.dumps(scheduler_settings(network), indent=2) + "\n", encoding="utf-8")


def scheduler_settings(network: FlowNetwork) -> dict[str, Any]:
    """Describe the scheduler that the pipeline's authors use with such a network."""
    if network.config.objective == "v":
        return {
            "_class_name": "CosineDPMSolverMultistepScheduler",
            "prediction_type": "v_prediction",
            "sigma_min": 0.3,
            "sigma_max": 500,
            "sigma_data": 1.0,
            "solver_order": 2,
        }
    # One training step: times are told to the network between 0 and 1, as here.
    return {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1}


def _projection(network: FlowNetwork, text_projection: nn.Linear | None, text_width: int) -> Any:
    build: Any = StableAudioProjectionModel
    model = build(text_width, network.config.cond_dim, 0, network.config.max_seconds)
    for name, module in zip(_NUMBERS, network.dit.seconds, strict=True):
        getattr(model, name).load_state_dict(module.state_dict())
    if text_projection is not None:
        model.text_projection.load_state_dict(text_projection.state_dict())
    return model
