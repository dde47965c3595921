"""Load and save transformers' MusicGen checkpoints: `facebook/musicgen-*` or a directory, bare decoder or whole model.

A whole model (`MusicgenForConditionalGeneration`) also contains a T5 and an EnCodec. They are not touched here: they
stay in their file, and are copied along when the decoder is saved again.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from solfa.config import parse_config
from solfa.errors import ConfigError
from solfa.files.whole_files import new_directory
from solfa.models.lm.musicgen_names import (
    POSITIONS,
    DecoderJson,
    decoder_json,
    split_tensors,
    tensor_names,
    tensor_shapes,
)
from solfa.models.lm.network import CodecLM, CodecLMConfig
from solfa.nn.positions import sinusoids
from solfa.pretrained.account import check_tensors
from solfa.pretrained.directory import CONFIG, copy_beside, read_config, write_checkpoint
from solfa.pretrained.hub import local_directory
from solfa.pretrained.tensors import TensorFiles

_logger = logging.getLogger(__name__)

_PROJECTION = "enc_to_dec_proj."
_PARTS = ("text_encoder", "audio_encoder")
_BESIDE = ("*.json", "*.model")


class WeightsReport(NamedTuple):
    """Where each tensor of a checkpoint went."""

    loaded: int
    """Tensors that became weights of the model or the text projection."""
    computed: tuple[str, ...]
    """Tensors whose values are computed here; they were checked against the computed ones."""
    left: Mapping[str, int]
    """The tensors of other parts, which stay in their file."""

    def __str__(self) -> str:
        others = "".join(f", {count} of {part} left in the file" for part, count in self.left.items())
        return f"{self.loaded} tensors loaded, {len(self.computed)} computed{others}"


class LoadedMusicgen(NamedTuple):
    """A MusicGen decoder and what came with it."""

    config: CodecLMConfig
    model: CodecLM
    text_projection: Mapping[str, Tensor] | None
    """The linear layer from the text encoder's width W to the model's: `weight` [D, W] and `bias` [D]."""
    text_encoder: str | None
    """The Hub id of the text encoder it was trained with, if the checkpoint says so."""
    codec: str | None
    """The Hub id of its codec, if the checkpoint says so."""
    directory: Path
    """Where its files are."""
    report: WeightsReport
    is_whole: bool
    """Whether a text encoder and a codec came with it."""


class _Checkpoint(NamedTuple):
    """A checkpoint whose config has been read, but no tensors yet."""

    where: str
    directory: Path
    raw: dict[str, Any]
    decoder: DecoderJson

    @property
    def is_whole(self) -> bool:
        return bool(self.raw["model_type"] == "musicgen")

    @property
    def prefix(self) -> str:
        return "decoder." if self.is_whole else ""

    @property
    def projected_width(self) -> int | None:
        """The text encoder's width, if it differs from the decoder's."""
        if not self.is_whole or self.raw["decoder"].get("cross_attention_hidden_size") is not None:
            return None
        text = self.raw.get("text_encoder") or {}
        width = text.get("d_model", text.get("hidden_size"))
        return None if width == self.decoder.hidden_size else width


def load_musicgen(location: str | Path, *, revision: str | None = None, dropout: float | None = None) -> LoadedMusicgen:
    """Load a MusicGen decoder in float32 and eval mode, every tensor accounted for.

    `dropout` replaces the checkpoint's own.

    >>> from solfa.models import CodecLM, CodecLMConfig, load_musicgen, save_musicgen
    >>> size = {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32, "cross_attention": True}
    >>> save_musicgen(CodecLM(CodecLMConfig(num_codebooks=4, codebook_size=32, **size)), "musicgen")
    >>> loaded = load_musicgen("musicgen")
    >>> loaded.model.num_codebooks, loaded.config.dim
    (4, 16)
    """
    checkpoint = _find(location, revision)
    config = checkpoint.decoder.lm_config(checkpoint.where, dropout)
    with torch.device("meta"):
        model = CodecLM(config)
    files = TensorFiles(checkpoint.directory)
    report = _account(checkpoint, files, config, model)
    state = {ours: _stacked(files, checkpoint.prefix, names) for ours, names in tensor_names(config).items()}
    model.load_state_dict(state, assign=True)
    model.eval()
    projection = {name: tensor.float() for name, tensor in files.part(_PROJECTION).items()}
    _logger.info("%s: %s", checkpoint.where, report)
    return LoadedMusicgen(
        config,
        model,
        projection or None,
        (checkpoint.raw.get("text_encoder") or {}).get("_name_or_path") or None,
        (checkpoint.raw.get("audio_encoder") or {}).get("_name_or_path") or None,
        checkpoint.directory,
        report,
        checkpoint.is_whole,
    )


def is_musicgen_location(location: str) -> bool:
    """Say whether a text could name a MusicGen: a folder with a config of one, or a Hub id; nothing is downloaded."""
    folder = Path(location).expanduser()
    if folder.is_dir():
        return (folder / CONFIG).is_file() and str(read_config(folder).get("model_type")).startswith("musicgen")
    return not folder.exists() and not location.startswith("//sig/") and "musicgen" in location


def check_musicgen(location: str | Path) -> None:
    """Refuse a MusicGen that cannot be loaded, by its config alone."""
    checkpoint = _find(location, None)
    checkpoint.decoder.lm_config(checkpoint.where)


def save_musicgen(
    model: CodecLM,
    directory: str | Path,
    *,
    source: str | Path | None = None,
    text_projection: Mapping[str, Tensor] | None = None,
) -> None:
    """Write a MusicGen decoder as transformers does, into a new directory.

    Without `source`, it becomes a `MusicgenForCausalLM`. If `source` is the checkpoint that the model was loaded from,
    it gets that one's layout and settings; the text encoder, codec and other files of a whole model are copied along.

    >>> import torch
    >>> from solfa.models import CodecLM, CodecLMConfig, load_musicgen, save_musicgen
    >>> size = {"dim": 16, "num_layers": 1, "num_heads": 2, "ffn_dim": 32, "cross_attention": True}
    >>> model = CodecLM(CodecLMConfig(num_codebooks=4, codebook_size=32, **size))
    >>> save_musicgen(model, "musicgen")  # MusicgenForCausalLM.from_pretrained("musicgen") reads it
    >>> torch.equal(load_musicgen("musicgen").model.heads.weight, model.heads.weight)
    True
    """
    config = decoder_json(model.config)
    tensors = split_tensors(model.config, model.state_dict())
    origin = None if source is None else _find(source, None)
    width = None if origin is None else origin.projected_width
    if (width is None) != (text_projection is None):
        raise ConfigError(
            f"save as MusicGen: expected {'no' if width is None else 'a'} text_projection "
            f"for the layout of {source or 'a bare decoder'}, found {'one' if text_projection is not None else 'none'}"
        )
    if origin is not None:
        _check_same_architecture(origin, model.config)
        tensors = {f"{origin.prefix}{name}": tensor for name, tensor in tensors.items()}
        tensors |= {f"{_PROJECTION}{name}": tensor.float() for name, tensor in (text_projection or {}).items()}
        # Without a dtype in the config, transformers would use that of the first tensor in the file.
        config = {"dtype": "float32", **_in_float32(origin.raw)}
    with new_directory(Path(directory)) as folder:
        if origin is not None:
            copy_beside(origin.directory, folder, _BESIDE)
            files = TensorFiles(origin.directory)
            for part in _PARTS if origin.is_whole else ():
                tensors |= {f"{part}.{name}": tensor for name, tensor in files.part(f"{part}.").items()}
        write_checkpoint(folder, config, tensors)


def _find(location: str | Path, revision: str | None) -> _Checkpoint:
    directory = local_directory(location, revision)
    where = f"MusicGen {location}"
    raw = read_config(directory)
    kind = raw.get("model_type")
    if kind not in ("musicgen", "musicgen_decoder"):
        raise ConfigError(
            f"{where}: expected model_type musicgen or musicgen_decoder in config.json, found {kind!r}; "
            "only MusicGen models without -melody in their name can be loaded"
        )
    decoder = raw if kind == "musicgen_decoder" else raw.get("decoder")
    if not isinstance(decoder, dict):
        raise ConfigError(f"{where}: expected a decoder in config.json, found {decoder!r}")
    return _Checkpoint(where, directory, raw, parse_config(DecoderJson, decoder, f"{where}: config.json"))


def _account(checkpoint: _Checkpoint, files: TensorFiles, config: CodecLMConfig, model: CodecLM) -> WeightsReport:
    """Check the names and shapes of all tensors, and say where each goes."""
    shapes = tensor_shapes(config, model.state_dict())
    wanted = {f"{checkpoint.prefix}{name}": shape for name, shape in shapes.items()}
    if checkpoint.projected_width is not None:
        wanted |= {
            f"{_PROJECTION}weight": (config.dim, checkpoint.projected_width),
            f"{_PROJECTION}bias": (config.dim,),
        }
    computed = files.names & {f"{checkpoint.prefix}{POSITIONS}"}
    parts = {part: {name for name in files.names if name.startswith(f"{part}.")} for part in _PARTS}
    left = {part: names for part, names in parts.items() if checkpoint.is_whole}
    check_tensors(files, wanted, computed.union(*left.values()), checkpoint.where)
    for name in computed:
        _check_positions(files.read(name), name, checkpoint.where)
    return WeightsReport(len(wanted), tuple(sorted(computed)), {part: len(names) for part, names in left.items()})


def _check_positions(table: Tensor, name: str, where: str) -> None:
    # Half-precision files round the table by up to 5e-4.
    if not torch.allclose(table.float(), sinusoids(torch.arange(len(table)), table.shape[1]), atol=1e-3):
        raise ConfigError(
            f"{where}: expected sinusoids in {name}, found other values; models with trained positions cannot be loaded"
        )


def _stacked(files: TensorFiles, prefix: str, names: tuple[str, ...]) -> Tensor:
    return torch.cat([files.read(f"{prefix}{name}").float() for name in names])


def _check_same_architecture(origin: _Checkpoint, config: CodecLMConfig) -> None:
    theirs = origin.decoder.lm_config(origin.where, config.dropout)
    for name, wanted in theirs.model_dump(exclude={"pattern", "history_dropout", "embedding_std"}).items():
        if getattr(config, name) != getattr(theirs, name):
            raise ConfigError(
                f"save as MusicGen: {origin.where} has {name} {wanted}, but the model has {getattr(config, name)}; "
                "pass the checkpoint that the model was loaded from"
            )


def _in_float32(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Update every dtype in a config to float32."""
    spelled = {key: _in_float32(value) if isinstance(value, dict) else value for key, value in raw.items()}
    typed = spelled.pop("torch_dtype", None) or spelled.get("dtype")
    return {**spelled, "dtype": "float32"} if typed else spelled
