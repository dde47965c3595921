"""Generate with a frozen text model and its audio experts: captions in, codes drawn step by step, audio out."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from solfa.codecs.protocol import Codec
from solfa.config import Config, nearest, parse_config
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.codes import CodesJob, generate_clips, prompt_codes
from solfa.generate.data_codec import DataCodec, codes_array
from solfa.generate.generator import OnStep
from solfa.generate.language_model import sampling_of
from solfa.generate.options import with_options
from solfa.generate.request import ClipRequest
from solfa.generate.stream import OnAudio
from solfa.models.lm.codes_shape import of_codes
from solfa.models.lm.generation import GenerationSettings
from solfa.models.lm.network import cross_entropy
from solfa.models.mot.assembly import build_mot
from solfa.models.mot.config import MoTConfig
from solfa.models.mot.network import MoT
from solfa.models.mot.prefix import TextPrefix
from solfa.models.mot.texts import Texts, TextsConfig

TEXT = "text"
"""The only condition of the model."""


@final
class TextModel:
    """A `ClipGenerator` around a Mixture-of-Transformers and the texts that it reads."""

    Options: ClassVar[type[Config]] = GenerationSettings

    def __init__(self, network: MoT, texts: Texts, data_codec: DataCodec, sampling: GenerationSettings) -> None:
        self.network, self.texts, self.sampling = network, texts, sampling
        self._data_codec = data_codec

    @classmethod
    def build(cls, config: Mapping[str, Any], data_facts: Mapping[str, Any]) -> "TextModel":
        """Load the base and the donor, and size the audio side to the data."""
        array = codes_array(data_facts)
        assert array.codebook_size is not None
        model = parse_config(MoTConfig, config["model"], "model")
        network = build_mot(of_codes(model, array.width, array.codebook_size))
        texts = Texts(parse_config(TextsConfig, config.get("text") or {}, "text"), network.base)
        data_codec = DataCodec(str(config.get("codec") or data_facts["codec"]), array)
        return cls(network, texts, data_codec, sampling_of(config, GenerationSettings))

    @property
    def codec(self) -> Codec:
        return self._data_codec.on(self.network.device)

    @property
    def conditions(self) -> Mapping[str, str]:
        return {TEXT: TEXT}

    def draw(
        self,
        requests: Sequence[ClipRequest],
        options: Mapping[str, Any],
        on_step: OnStep,
        on_audio: OnAudio | None = None,
    ) -> Iterator[GeneratedClip]:
        """Draw clips and yield each one when it is complete."""
        settings = with_options(self.sampling, options)
        told = [self._told(request.text, request.conditions) for request in requests]
        jobs = [
            CodesJob(request, values, prompt_codes(request, self.codec, self.network.device))
            for request, values in zip(requests, told, strict=True)
        ]
        return generate_clips(self.network, self._conditions, self.codec, jobs, settings, on_step)

    def log_prob(self, array: Tensor, text: str | None, conditions: Mapping[str, Any]) -> float:
        """Sum the log-probabilities, in nats, of all codes `[T, K]` of a clip."""
        codes = array.long().transpose(0, 1)[None].to(self.network.device)
        mask = torch.ones(1, codes.shape[2], dtype=torch.bool, device=codes.device)
        with torch.inference_mode():
            logits = self.network.eval()(codes, mask, self.texts.prefix([self._told(text, conditions)[TEXT]]))
            return -float(cross_entropy(logits, codes, mask[:, None].expand_as(codes)).double().sum())

    def _told(self, text: str | None, conditions: Mapping[str, Any]) -> dict[str, Any]:
        for name in conditions:
            raise ConfigError(
                f"`conditions`: expected none besides `text`, found {name!r}{nearest(name, [TEXT])}; put everything "
                "into the text"
            )
        return {TEXT: text}

    def _conditions(self, rows: Sequence[Mapping[str, Any]]) -> Callable[[], TextPrefix]:
        texts = [row.get(TEXT) for row in rows]
        for text in texts:
            self.texts.tokenize(text)
        return lambda: self.texts.prefix(texts, guided=any(texts))
