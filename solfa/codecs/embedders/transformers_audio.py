"""Any audio model of HF transformers as an embedder, from a directory or the Hub: CLAP, MERT, wav2vec 2.0, AST, ...

    CLAP               the projection that it shares with texts, of length 1
    a classifier       the mean of its last layer over time, and its logits as tags
    Whisper            the mean of its encoder's last layer
    anything else      the mean of its last layer over time

MERT is a HuBERT with weights of its own, and is read as one: the code that its repository brings is never run.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from solfa.codecs.embedders.protocol import in_pieces, whole_windows
from solfa.codecs.inference import exact_inference, set_for_inference
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.files.json_objects import read_object
from solfa.pretrained.account import check_loaded
from solfa.pretrained.directory import CONFIG
from solfa.pretrained.hub import local_directory, quiet_loading
from solfa.pretrained.tensors import weights_sha256

WINDOW_SECONDS = 5.0
"""Of models that take any length."""
_FIXED = {"clap": "nb_max_samples", "whisper": "n_samples"}
"""What a feature extractor calls the length that its model takes."""
_AST_SECONDS = 10.0
_NO_NUMBERS = ("_name_or_path", "transformers_version", "dtype", "architectures", "auto_map")
"""What a config says that changes nothing."""


@final
class TransformersEmbedder:
    """A transformers model behind the embedder protocol."""

    def __init__(self, name: str, model: Any, extractor: Any, device: str = "cpu") -> None:
        self.name, self._extractor, self._device = name, extractor, device
        config = model.config
        self._kind = str(config.model_type)
        self.sample_rate = int(extractor.sampling_rate)
        self.hop_length = _window(self._kind, extractor)
        is_tagger = type(model).__name__.endswith("ForAudioClassification") or hasattr(model, "classifier")
        labels = config.id2label if is_tagger else {}
        self.tags = tuple(str(labels[index]) for index in sorted(labels))
        self.width = int(config.projection_dim if self._kind == "clap" else _hidden_size(config))
        told = {key: value for key, value in config.to_dict().items() if key not in _NO_NUMBERS}
        description = {
            "family": f"transformers {self._kind}",
            "config": told,
            "features": {key: value for key, value in extractor.to_dict().items() if not _is_large(value)},
            "weights_sha256": weights_sha256(model.state_dict()),
            "window": self.hop_length,
        }
        # As a dataset stores it: without tuples, and with texts as keys.
        self.description: Mapping[str, Any] = json.loads(json.dumps(description, default=str))
        self.fingerprint = value_sha256(self.description)
        set_for_inference(model, "fp32", device)
        self.model = model

    @classmethod
    def load(cls, location: str | Path, device: str = "cpu") -> "TransformersEmbedder":
        """Load a model and its feature extractor, and account for every weight."""
        from transformers import AutoFeatureExtractor

        directory = local_directory(location, what="embedder")
        for name in (CONFIG, "preprocessor_config.json"):
            if not (directory / name).is_file():
                raise ConfigError(
                    f"embedder {location}: expected a {name} beside the weights, found none; `save_pretrained` of the "
                    "model and of its feature extractor write them"
                )
        config = read_object(directory / CONFIG, ConfigError, f"embedder {location}")
        model = _load_model(str(location), directory, config)
        with quiet_loading():
            extractor = AutoFeatureExtractor.from_pretrained(directory)
        return cls(str(location), model, extractor, device)

    def embed(self, audio: Float[Tensor, "B N"]) -> Float[Tensor, "B T W"]:
        """Embed whole windows; those of one clip are computed together."""
        with exact_inference():
            clips = [whole_windows(clip, self.hop_length) for clip in audio.float().cpu()]
            return torch.stack([torch.cat([self._windows(piece) for piece in in_pieces(clip)]) for clip in clips])

    def embed_texts(self, texts: list[str]) -> Float[Tensor, "B D"]:
        """Embed texts in the space of the sounds, of length 1; only CLAP can."""
        if self._kind != "clap":
            raise ConfigError(
                f"embedder {self.name}: it hears sounds and reads no texts; for the agreement with texts, use a CLAP"
            )
        from transformers import AutoTokenizer

        tokens = AutoTokenizer.from_pretrained(self.name)(texts, padding=True, truncation=True, return_tensors="pt")
        with exact_inference():
            found = self.model.get_text_features(**{key: value.to(self._device) for key, value in tokens.items()})
        return torch.nn.functional.normalize(_tensor(found), dim=-1).cpu()

    def _windows(self, windows: Float[Tensor, "T window"]) -> Float[Tensor, "T W"]:
        features = self._extractor(
            [window.numpy() for window in windows], sampling_rate=self.sample_rate, return_tensors="pt"
        )
        given = {key: value.to(self._device) for key, value in features.items() if isinstance(value, Tensor)}
        if self._kind == "clap":
            return torch.nn.functional.normalize(_tensor(self.model.get_audio_features(**given)), dim=-1)
        if self.tags:
            found = self.model(**given, output_hidden_states=True)
            return torch.cat([found.hidden_states[-1].mean(dim=1), found.logits], dim=1)
        network = self.model.get_encoder() if self._kind == "whisper" else self.model
        hidden: Tensor = network(**given).last_hidden_state
        return hidden.mean(dim=1)


def _load_model(name: str, directory: Path, config: Mapping[str, Any]) -> Any:
    from transformers import AutoModel, AutoModelForAudioClassification, HubertConfig, HubertModel

    is_tagger = any(str(known).endswith("ForAudioClassification") for known in config.get("architectures") or ())
    kind: Any = AutoModelForAudioClassification if is_tagger else AutoModel
    settings: dict[str, Any] = {}
    if config.get("model_type") == "mert_model":
        if config.get("feature_extractor_cqt") or config.get("deepnorm"):
            raise ConfigError(
                f"embedder {name}: this MERT has parts that HuBERT lacks (feature_extractor_cqt or deepnorm), and "
                "code of others is not run here; use a MERT without them"
            )
        kind = HubertModel
        settings = {"config": HubertConfig(**{k: v for k, v in config.items() if k not in ("model_type", "auto_map")})}
    try:
        with quiet_loading():
            model, info = kind.from_pretrained(
                directory,
                torch_dtype=torch.float32,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                **settings,
            )
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"embedder {name}: transformers cannot load it as an audio model ({reason})") from None
    # A head that is not needed may be left over; nothing may be missing but what is only for masks in training.
    needed = [key for key in info["missing_keys"] if not key.endswith("masked_spec_embed")]
    check_loaded({**info, "missing_keys": needed}, f"embedder {name}", lambda name: True)
    return model


def _window(kind: str, extractor: Any) -> int:
    if kind in _FIXED:
        return int(getattr(extractor, _FIXED[kind]))
    seconds = _AST_SECONDS if kind == "audio-spectrogram-transformer" else WINDOW_SECONDS
    return round(seconds * int(extractor.sampling_rate))


def _hidden_size(config: Any) -> int:
    return int(getattr(config, "hidden_size", None) or config.d_model)


def _is_large(value: Any) -> bool:
    """Tables of filters follow from the other settings."""
    return isinstance(value, list) and len(value) > 16


def _tensor(found: Any) -> Tensor:
    tensor: Tensor = found if isinstance(found, Tensor) else found.pooler_output
    return tensor
