"""Generate with a codec language model: texts, labels and numbers in, codes drawn step by step, audio out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, final

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from solfa.codecs.protocol import Codec
from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.generate.clip import GeneratedClip
from solfa.generate.codes import BestOf, CodesJob, generate_clips, prompt_codes
from solfa.generate.condition_listener import ConditionListener
from solfa.generate.data_codec import DataCodec, codes_array
from solfa.generate.generator import OnStep
from solfa.generate.options import with_options
from solfa.generate.request import ClipRequest, with_text
from solfa.generate.stream import OnAudio
from solfa.generate.weight_layout import weight_layout
from solfa.models.conditioners.set import ConditionsConfig
from solfa.models.lm.candidates import CandidateSettings, best_candidate, blind_log_probs
from solfa.models.lm.conditioned import ConditionedLM, build_conditioned_lm
from solfa.models.lm.fastest_way import fastest_way
from solfa.models.lm.generation import GenerationSettings
from solfa.models.lm.musicgen import load_musicgen
from solfa.models.lm.musicgen_export import text_conditioner
from solfa.models.lm.network import CodecLMConfig, cross_entropy, inputs_and_targets
from solfa.models.lm.weight_layouts import WeightLayout, count_weights, lay_out_weights
from solfa.xp.state_file import load_module

S = TypeVar("S", bound=GenerationSettings)


@final
class LanguageModel:
    """A `ClipGenerator` around a codec language model and its conditioners."""

    Options: ClassVar[type[Config]] = CandidateSettings

    def __init__(
        self,
        network: ConditionedLM,
        data_codec: DataCodec,
        sampling: CandidateSettings,
        listener: ConditionListener | None = None,
    ) -> None:
        self.network, self.sampling, self.listener = network, sampling, listener
        self._data_codec = data_codec
        self._layout: WeightLayout | None = None

    @classmethod
    def build(cls, config: Mapping[str, Any], data_facts: Mapping[str, Any]) -> "LanguageModel":
        """Build an untrained model from the settings of an experiment."""
        array = codes_array(data_facts)
        assert array.codebook_size is not None
        network = build_conditioned_lm(
            parse_config(CodecLMConfig, config["model"], "model"),
            parse_config(ConditionsConfig, config.get("conditioner") or {}, "conditioner"),
            array.width,
            array.codebook_size,
            array.frame_rate,
        )
        data_codec = DataCodec(str(config.get("codec") or data_facts["codec"]), array)
        folder = config.get("listener")
        listener = None if folder is None else ConditionListener.load(str(folder), network.conditioners, data_facts)
        return cls(network, data_codec, sampling_of(config, CandidateSettings), listener)

    @property
    def codec(self) -> Codec:
        return self._data_codec.on(self.network.lm.device)

    @property
    def conditions(self) -> Mapping[str, str]:
        return {name: part.kind for name, part in self.network.conditioners.config.conditioners.items()}

    def lay_out_weights(self, layout: WeightLayout) -> None:
        """Lay out the weights for fast generation on a CPU; after that the model cannot be trained or moved."""
        if self._layout not in (None, layout):
            raise ConfigError(f"`weights={layout}`: this model was already converted to {self._layout}; load it again")
        if self._layout is None:
            lm = self.network.lm
            lay_out_weights(lm, weight_layout(layout), fastest_way(layout, count_weights(lm)))
            self._layout = layout

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
            CodesJob(request, values, prompt_codes(request, self.codec, self.network.lm.device))
            for request, values in zip(requests, told, strict=True)
        ]
        network, best_of = self.network, self._best_of(settings.candidates)
        checked = network.conditioners.checked
        return generate_clips(network.lm, checked, self.codec, jobs, settings, on_step, best_of=best_of)

    def log_prob(self, array: Tensor, text: str | None, conditions: Mapping[str, Any]) -> float:
        """Sum the log-probabilities, in nats, of all codes `[T, K]` of a clip."""
        lm = self.network.lm
        codes = array.long().transpose(0, 1)[None].to(lm.device)
        mask = torch.ones(1, codes.shape[2], dtype=torch.bool, device=lm.device)
        laid = inputs_and_targets(codes, mask, lm.layout(codes.shape[2]), lm.special)
        tokens = self.network.conditioners.tokenize([self._told(text, conditions)])
        with torch.inference_mode():
            logits = self.network.eval()(laid.inputs, tokens)
            return -float(cross_entropy(logits, laid.targets, laid.mask).double().sum())

    def load_pretrained(self, location: str) -> str:
        """Load a MusicGen checkpoint in transformers' layout: a directory or a Hub id."""
        loaded = load_musicgen(location.removeprefix("//pretrained/"))
        load_module("model.lm", self.network.lm, loaded.model.state_dict())
        told = f"loaded the language model from {location}"
        if loaded.text_projection is not None:
            text_conditioner(self.network, location).output_proj.load_state_dict(loaded.text_projection)
            told += " and its text projection"
        elif loaded.is_whole:
            # Its text encoder has the decoder's width, so there is no projection between them.
            projection = text_conditioner(self.network, location).output_proj
            if isinstance(projection, nn.Linear):
                nn.init.eye_(projection.weight)
                nn.init.zeros_(projection.bias)
        return told + "; everything else starts fresh"

    def _best_of(self, num: int) -> BestOf | None:
        """Say how the best of several clips is found, if there are several."""
        if num == 1:
            return None
        if not self.network.lm.config.history_dropout:
            raise ConfigError(
                f"`candidates={num}`: expected a model that can tell which clip fits best, because beginnings were "
                "hidden from it in training (model.history_dropout above 0), found 0; leave it out"
            )
        return BestOf(num, self._choose)

    @torch.inference_mode()
    def _choose(self, told: Mapping[str, Any], codes: Int64[Tensor, "N K T"]) -> int:
        conditioners = self.network.conditioners
        rows = [told, {}, *conditioners.near_misses(told)]
        log_probs = blind_log_probs(self.network.lm, conditioners.checked(rows)(), codes)
        return best_candidate(log_probs, None if self.listener is None else self.listener.log_probs(told, codes))

    def _told(self, text: str | None, conditions: Mapping[str, Any]) -> dict[str, Any]:
        return with_text(conditions, text, self.conditions)


def sampling_of(config: Mapping[str, Any], kind: type[S]) -> S:
    """Read how an experiment draws codes by default."""
    stage = config.get("generate") or {}
    return parse_config(kind, stage.get("sampling") or {}, "generate.sampling")
