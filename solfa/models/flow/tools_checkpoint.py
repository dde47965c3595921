"""Diffusion transformers of stable-audio-tools and stable-audio-3: `model_config.json` and an unwrapped checkpoint.

Settings that would change the numbers in a way that diffusers' networks cannot are refused by name.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field
from torch import Tensor

from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.files.json_objects import read_object
from solfa.models.flow.foreign_weights import ForeignFlow
from solfa.models.flow.tools_names import open_tensors, three_tensors
from solfa.pretrained.tensors import read_state_dict

_OBJECTIVES = {"v": "v", "rectified_flow": "rectified_flow", "rf_denoiser": "rectified_flow"}


class _Ignoring(Config):
    model_config = ConfigDict(extra="ignore")


class _Number(_Ignoring):
    min_val: Literal[0] = 0
    max_val: float = 1.0


class _Conditioner(_Ignoring):
    id: str
    type: str
    config: Mapping[str, Any] = {}


class _Conditioning(_Ignoring):
    configs: tuple[_Conditioner, ...]
    cond_dim: int


class _Attention(Config):
    qk_norm: Literal["none", "rms"] = "none"
    qk_norm_eps: float = 1e-6
    differential: bool = False
    feat_scale: Literal[False] = False


class _FeedForward(Config):
    mult: float = 4
    no_bias: Literal[False] = False
    glu: Literal[True] = True
    use_conv: Literal[False] = False
    zero_init_output: bool = True


class _Norm(Config):
    eps: float = 1e-5
    force_fp32: bool = False
    fix_scale: bool = False
    bias: bool = False


class _Dit(Config):
    """The `config` of a `dit`; fields with one possible value are those that the networks here have no other for."""

    io_channels: int
    embed_dim: int
    depth: int
    num_heads: int
    cond_token_dim: int
    global_cond_dim: int
    project_cond_tokens: bool = True
    project_global_cond: Literal[True] = True
    transformer_type: Literal["continuous_transformer"] = "continuous_transformer"
    global_cond_type: Literal["prepend", "adaLN"] = "prepend"
    timestep_cond_type: Literal["global"] = "global"
    timestep_features_type: Literal["learned", "expo"] = "learned"
    timestep_features_dim: Literal[256] = 256
    timestep_features_logsnr: Literal[False] = False
    patch_size: Literal[1] = 1
    num_memory_tokens: int = 0
    local_add_cond_dim: int | None = None
    norm_type: Literal["layer_norm", "rms_norm"] = "layer_norm"
    attn_kwargs: _Attention = _Attention()
    ff_kwargs: _FeedForward = _FeedForward()
    norm_kwargs: _Norm = _Norm()
    zero_init_branch_outputs: bool = True
    use_checkpointing: bool = True


class _Diffusion(_Ignoring):
    type: Literal["dit"]
    config: Mapping[str, Any]
    diffusion_objective: Literal["v", "rectified_flow", "rf_denoiser"] = "v"
    cross_attention_cond_ids: tuple[str, ...] = ()
    global_cond_ids: tuple[str, ...] = ()
    input_concat_ids: tuple[()] = ()
    prepend_cond_ids: tuple[()] = ()


class _Pretransform(_Ignoring):
    scale: float = Field(default=1.0, gt=0)
    config: Mapping[str, Any] = {}


class _Model(_Ignoring):
    diffusion: _Diffusion
    conditioning: _Conditioning
    pretransform: _Pretransform | None = None


class _ToolsConfig(_Ignoring):
    model_type: Literal["diffusion_cond", "diffusion_cond_inpaint"]
    sample_size: int = 0
    model: _Model


def read_tools(config_path: Path, weights: Path) -> ForeignFlow:
    """Read a model of stable-audio-tools."""
    where = f"model config {config_path}"
    config = parse_config(_ToolsConfig, read_object(config_path, ConfigError, where), where)
    dit = parse_config(_Dit, config.model.diffusion.config, f"{where}: model.diffusion.config")
    settings = _settings(config.model, dit, where)
    is_open = settings["kind"] == "stable_audio_open"
    names = tuple(settings["timing"])
    parts = _parts(read_state_dict(weights), f"checkpoint {weights}")
    tensors = open_tensors if is_open else three_tensors
    state, projection = tensors(parts["model"], parts["conditioner"], names, dit.attn_kwargs.differential)
    ratio = (config.model.pretransform or _Pretransform()).config.get("downsampling_ratio")
    return ForeignFlow(
        settings,
        dit.io_channels,
        state,
        projection,
        (config.model.pretransform or _Pretransform()).scale,
        config.sample_size // ratio if isinstance(ratio, int) else 0,
        {name: len(part) for name, part in parts.items() if name not in ("model", "conditioner") and part},
    )


def _parts(state: Mapping[str, Tensor], where: str) -> dict[str, dict[str, Tensor]]:
    """Sort tensors by the part of the model they belong to."""
    parts: dict[str, dict[str, Tensor]] = {"model": {}, "conditioner": {}, "pretransform": {}}
    for name, tensor in state.items():
        part, _, rest = name.partition(".")
        if part.startswith("diffusion"):
            raise ConfigError(
                f"{where}: expected one unwrapped model, found a training checkpoint with {part}; export the model "
                "from it with stable-audio-tools' unwrap_model.py"
            )
        if part not in parts:
            raise ConfigError(f"{where}: expected tensors of {', '.join(parts)}, found {name}")
        parts[part][rest.removeprefix("model." if part == "model" else "")] = tensor
    return parts


def _settings(model: _Model, dit: _Dit, where: str) -> dict[str, Any]:
    """Say what the config fixes of a model's settings here; what no network here can do is refused."""
    numbers, text, timing = _told(model, where)
    is_open = dit.global_cond_type == "prepend"
    shared = {
        "kind": "stable_audio_open" if is_open else "stable_audio_3",
        "objective": _OBJECTIVES[model.diffusion.diffusion_objective],
        "dim": dit.embed_dim,
        "num_layers": dit.depth,
        "num_heads": dit.num_heads,
        "cond_dim": dit.cond_token_dim,
        "timing": timing,
        "max_seconds": numbers[0].max_val,
        "context_tokens": int(text.config.get("max_length", 128)),
    }
    expected = {
        "model.conditioning.cond_dim": (model.conditioning.cond_dim, dit.cond_token_dim),
        "global_cond_dim": (dit.global_cond_dim, dit.cond_token_dim * (len(timing) if is_open else 1)),
    }
    if is_open:
        cross_dim = dit.embed_dim if dit.project_cond_tokens else dit.cond_token_dim
        expected |= _plain(dit)
        own: dict[str, Any] = {"num_kv_heads": cross_dim * dit.num_heads // dit.embed_dim, "cross_dim": cross_dim}
    else:
        expected |= _three(dit, timing)
        own = {
            "num_memory_tokens": dit.num_memory_tokens,
            "differential": dit.attn_kwargs.differential,
            "ffn_ratio": dit.ff_kwargs.mult,
            "norm_eps": dit.norm_kwargs.eps,
        }
    for name, (found, wanted) in expected.items():
        if found != wanted:
            raise ConfigError(f"{where}: {name}: expected {wanted!r}, found {found!r}, which Solfa cannot run")
    return {**shared, **own}


def _told(model: _Model, where: str) -> tuple[list[_Number], _Conditioner, tuple[str, ...]]:
    """Find the numbers and the text that a model is conditioned on."""
    by_id = {part.id: part for part in model.conditioning.configs}
    timing = model.diffusion.global_cond_ids
    unknown = [name for name in timing if name not in ("seconds_start", "seconds_total")]
    texts = [part for part in by_id.values() if part.type in ("t5", "t5gemma")]
    wanted = [*(part.id for part in texts), *timing]
    if unknown or len(texts) != 1 or [*model.diffusion.cross_attention_cond_ids] != wanted:
        raise ConfigError(
            f"{where}: expected a t5 or t5gemma text and then seconds_start or seconds_total as the conditions of the "
            f"cross-attention, and the seconds as the global ones, found "
            f"{', '.join(model.diffusion.cross_attention_cond_ids)} and {', '.join(timing) or 'none'}"
        )
    numbers = [parse_config(_Number, by_id[name].config, f"{where}: {name}") for name in timing]
    if len({number.max_val for number in numbers}) != 1:
        raise ConfigError(f"{where}: expected one max_val for {' and '.join(timing)}, found several")
    return numbers, texts[0], timing


def _plain(dit: _Dit) -> dict[str, tuple[Any, Any]]:
    """List what Stable Audio Open's network has no choice of."""
    return {
        "timestep_features_type": (dit.timestep_features_type, "learned"),
        "num_memory_tokens": (dit.num_memory_tokens, 0),
        "local_add_cond_dim": (dit.local_add_cond_dim, None),
        "norm_type": (dit.norm_type, "layer_norm"),
        "norm_kwargs.eps": (dit.norm_kwargs.eps, 1e-5),
        "attn_kwargs.qk_norm": (dit.attn_kwargs.qk_norm, "none"),
        "attn_kwargs.differential": (dit.attn_kwargs.differential, False),
        "ff_kwargs.mult": (dit.ff_kwargs.mult, 4),
    }


def _three(dit: _Dit, timing: tuple[str, ...]) -> dict[str, tuple[Any, Any]]:
    """List what Stable Audio 3's network has no choice of."""
    return {
        "project_cond_tokens": (dit.project_cond_tokens, True),
        "timestep_features_type": (dit.timestep_features_type, "expo"),
        "local_add_cond_dim": (dit.local_add_cond_dim, dit.io_channels + 1),
        "norm_type": (dit.norm_type, "rms_norm"),
        "attn_kwargs.qk_norm": (dit.attn_kwargs.qk_norm, "rms"),
        "attn_kwargs.qk_norm_eps": (dit.attn_kwargs.qk_norm_eps, 1e-6),
        "global_cond_ids": (len(timing), 1),
    }
