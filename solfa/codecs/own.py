"""Codecs that Solfa trained: an exported directory, or the folder of an experiment as it stands."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from solfa.codecs.checkpoint import Checkpoint
from solfa.codecs.inference import clip_by_clip, dtype_of, exact_inference, prepare
from solfa.codecs.protocol import Encoded, Kind, StoredClip, as_batch
from solfa.codecs.waveform import check_audio
from solfa.codecs.weights import weights_sha256
from solfa.config import Config, parse_config
from solfa.environment.experiments import CONFIG
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.files import load_codec_model
from solfa.models.codec.model import CodecModel

BEST = "best.pt"
"""The weights of an experiment's best epoch, in its folder."""


class OwnOptions(Config):
    """What a user may choose about a codec trained here."""

    num_codebooks: int | None = Field(default=None, ge=1)
    """The first K codebooks; None takes all."""


@final
class OwnCodec:
    """A codec network behind the codec protocol."""

    def __init__(self, model: CodecModel, checkpoint: Checkpoint, options: OwnOptions) -> None:
        config = model.config
        self.kind: Kind = config.kind
        available = config.num_codebooks
        if options.num_codebooks is not None and (available is None or options.num_codebooks > available):
            raise ConfigError(
                f"codec {checkpoint.name}: num_codebooks: expected at most {available or 'none at all'}, "
                f"found {options.num_codebooks}"
            )
        self.num_codebooks = options.num_codebooks or available
        self.name = checkpoint.name
        chosen = {} if self.num_codebooks is None else {"num_codebooks": self.num_codebooks}
        self.spec = checkpoint.spec(chosen)
        self.sample_rate, self.num_channels = config.sample_rate, config.num_channels
        self.hop_length, self.frame_rate = config.hop_length, config.frame_rate
        self.codebook_size, self.latent_channels = config.codebook_size, config.latent_channels
        self.description: Mapping[str, Any] = {
            "family": "solfa_codec",
            "architecture": config.model_dump(mode="json"),
            "weights_sha256": weights_sha256(model.state_dict()),
            "options": chosen,
            "precision": checkpoint.precision,
        }
        self.fingerprint = value_sha256(self.description)
        prepare(model, checkpoint.precision, checkpoint.device)
        self.model, self._device = model, checkpoint.device
        self._encode = clip_by_clip(lambda audio: model.encode(audio, self.num_codebooks))

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, options: Mapping[str, object]) -> "OwnCodec":
        """Load an exported directory."""
        parsed = parse_config(OwnOptions, options, f"codec {checkpoint.name}")
        return cls(load_codec_model(checkpoint.location), checkpoint, parsed)

    @classmethod
    def from_experiment(cls, folder: Path, checkpoint: Checkpoint, options: Mapping[str, object]) -> "OwnCodec":
        """Load the best weights of an experiment that trains a codec."""
        parsed = parse_config(OwnOptions, options, f"codec {checkpoint.name}")
        settings, best = folder / CONFIG, folder / BEST
        for path in (settings, best):
            if not path.is_file():
                raise ConfigError(
                    f"codec {folder}: expected a trained experiment, found no {path.name}; train it first"
                )
        values = json.loads(settings.read_bytes())
        if values.get("solver") != "compression":
            raise ConfigError(
                f"codec {folder}: expected an experiment of the solver compression, found {values.get('solver')}"
            )
        model = CodecModel(parse_config(CodecModelConfig, values["model"], f"{settings}: model"))
        model.load_state_dict(torch.load(best, map_location="cpu", weights_only=True)["states"]["model"])
        return cls(model, checkpoint, parsed)

    def encode(self, audio: Float[Tensor, "B C N"]) -> Encoded:
        """Encode clips of equal length to codes `[B, T, K]`, or to means of latents `[B, T, Z]`."""
        check_audio(audio, self.num_channels, self.name)
        with exact_inference():
            array = self._encode(audio.to(self._device, dtype_of(self.model)))
        return Encoded(array, audio.shape[-1])

    def decode(self, encoded: Encoded | StoredClip) -> Float[Tensor, "*B C N"]:
        """Decode to exactly the number of samples that were encoded."""
        batch, single = as_batch(encoded, self._device)
        array = batch.array.long() if self.kind == "codes" else batch.array.to(dtype_of(self.model))
        with exact_inference():
            audio = self.model.decode(array, batch.num_samples).float()
        return audio[0] if single else audio
