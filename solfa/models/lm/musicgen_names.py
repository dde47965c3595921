"""How transformers stores a MusicGen decoder: its `config.json`, and its tensor names next to ours.

    ours                                    theirs (a fused tensor is theirs, stacked)
    embeddings.k.weight                     model.decoder.embed_tokens.k.weight
    transformer.layers.i                    model.decoder.layers.i
      .self_norm, .cross_norm, .ffn_norm      .self_attn_layer_norm, .encoder_attn_layer_norm, .final_layer_norm
      .self_attention.qkv                     .self_attn.q_proj, .k_proj, .v_proj
      .cross_attention.query                  .encoder_attn.q_proj
      .cross_attention.key_value              .encoder_attn.k_proj, .v_proj
      .self_attention.out, .cross_attention.out   .self_attn.out_proj, .encoder_attn.out_proj
      .fc1, .fc2                              .fc1, .fc2
    transformer.norm                        model.decoder.layer_norm
    heads.weight                            lm_heads.0.weight, lm_heads.1.weight, ...

`MusicgenForConditionalGeneration` puts `decoder.` in front of all of theirs.
"""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from pydantic import ConfigDict, Field
from torch import Tensor

from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.models.lm.network import CodecLMConfig
from solfa.nn.positions import Sinusoidal
from solfa.ops.patterns import Delay

_logger = logging.getLogger(__name__)

POSITIONS = "model.decoder.embed_positions.weights"
"""A table that older checkpoints contain although it can be computed."""


class DecoderJson(Config):
    """The fields of a `musicgen_decoder` that define the architecture, with transformers' defaults.

    `scale_embedding` is left out on purpose: transformers' own forward pass does not use it.
    """

    model_config = ConfigDict(extra="ignore")

    model_type: Literal["musicgen_decoder"] = "musicgen_decoder"
    vocab_size: int = 2048
    num_codebooks: int = 4
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    ffn_dim: int = 4096
    activation_function: Literal["gelu"] = "gelu"
    dropout: float = Field(default=0.1, ge=0, lt=1)
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    layerdrop: float = 0.0
    audio_channels: int = 1
    pad_token_id: int | None = 2048
    bos_token_id: int | None = 2048
    tie_word_embeddings: Literal[False] = False

    def lm_config(self, where: str, dropout: float | None = None) -> CodecLMConfig:
        """Convert to our config; `dropout` replaces the checkpoint's own."""
        if self.audio_channels != 1:
            raise ConfigError(
                f"{where}: expected a mono MusicGen, found audio_channels {self.audio_channels}, whose codebooks "
                "alternate between two channels; use the checkpoint without -stereo in its name"
            )
        if {self.pad_token_id, self.bos_token_id} != {self.vocab_size}:
            raise ConfigError(
                f"{where}: expected pad_token_id and bos_token_id {self.vocab_size}, the id after the last code, "
                f"found {self.pad_token_id} and {self.bos_token_id}"
            )
        for name in ("attention_dropout", "activation_dropout", "layerdrop"):
            if getattr(self, name):
                _logger.warning("%s: %s %s is not used in training", where, name, getattr(self, name))
        fields = {
            "num_codebooks": self.num_codebooks,
            "codebook_size": self.vocab_size,
            "dim": self.hidden_size,
            "num_layers": self.num_hidden_layers,
            "num_heads": self.num_attention_heads,
            "ffn_dim": self.ffn_dim,
            "dropout": self.dropout if dropout is None else dropout,
            "cross_attention": True,
            "clock": False,
        }
        return parse_config(CodecLMConfig, fields, where)


def decoder_json(config: CodecLMConfig) -> dict[str, Any]:
    """Write a decoder's `config.json`, refusing a model that transformers cannot represent."""
    num_codebooks, codebook_size = config.codes_shape
    _check_expressible(config, num_codebooks)
    fields = DecoderJson(
        vocab_size=codebook_size,
        num_codebooks=num_codebooks,
        hidden_size=config.dim,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        ffn_dim=config.ffn_dim,
        dropout=config.dropout,
        pad_token_id=codebook_size,
        bos_token_id=codebook_size,
    )
    return {"architectures": ["MusicgenForCausalLM"], "dtype": "float32", **fields.model_dump()}


def _check_expressible(config: CodecLMConfig, num_codebooks: int) -> None:
    standard = tuple(range(num_codebooks))
    delayed = isinstance(config.pattern, Delay) and config.pattern.of_codebooks(num_codebooks) == standard
    for fits, expected, found in (
        (isinstance(config.positions, Sinusoidal), "sinusoidal positions", config.positions.kind),
        (delayed, "the pattern delay with 0, 1, 2, ...", config.pattern),
        (bool(config.cross_attention), "cross-attention", "none"),
        (not config.clock, "no clock", "one"),
    ):
        if not fits:
            raise ConfigError(f"save as MusicGen: transformers needs {expected}, found {found}")


def tensor_names(config: CodecLMConfig) -> dict[str, tuple[str, ...]]:
    """Return their names for each of our tensors, in stacking order."""
    return dict(_names(config.codes_shape[0], config.num_layers))


def _names(num_codebooks: int, num_layers: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    for index in range(num_codebooks):
        yield f"embeddings.{index}.weight", (f"model.decoder.embed_tokens.{index}.weight",)
    for index in range(num_layers):
        yield from _layer_names(f"transformer.layers.{index}", f"model.decoder.layers.{index}")
    yield from _norm_names("transformer.norm", "model.decoder.layer_norm")
    yield "heads.weight", tuple(f"lm_heads.{index}.weight" for index in range(num_codebooks))


def _layer_names(ours: str, theirs: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from _norm_names(f"{ours}.self_norm", f"{theirs}.self_attn_layer_norm")
    yield from _norm_names(f"{ours}.cross_norm", f"{theirs}.encoder_attn_layer_norm")
    yield from _norm_names(f"{ours}.ffn_norm", f"{theirs}.final_layer_norm")
    for module, parts in (
        ("self_attention.qkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        ("self_attention.out", ("self_attn.out_proj",)),
        ("cross_attention.query", ("encoder_attn.q_proj",)),
        ("cross_attention.key_value", ("encoder_attn.k_proj", "encoder_attn.v_proj")),
        ("cross_attention.out", ("encoder_attn.out_proj",)),
        ("fc1", ("fc1",)),
        ("fc2", ("fc2",)),
    ):
        yield f"{ours}.{module}.weight", tuple(f"{theirs}.{part}.weight" for part in parts)


def _norm_names(ours: str, theirs: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for tensor in ("weight", "bias"):
        yield f"{ours}.{tensor}", (f"{theirs}.{tensor}",)


def tensor_shapes(config: CodecLMConfig, state: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each of their tensors for a model with the weights `state` (on any device, even meta)."""
    return {
        name: (state[ours].shape[0] // len(names), *state[ours].shape[1:])
        for ours, names in tensor_names(config).items()
        for name in names
    }


def split_tensors(config: CodecLMConfig, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Cut our tensors into theirs."""
    theirs: dict[str, Tensor] = {}
    for ours, names in tensor_names(config).items():
        parts = state[ours].detach().to("cpu", torch.float32).chunk(len(names))
        # Each in its own memory: safetensors refuses tensors that share memory.
        theirs |= {name: part.clone() for name, part in zip(names, parts, strict=True)}
    return theirs
