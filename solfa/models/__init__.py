"""Whole networks: forward and generate, no training loop."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.models.adapters.lora import Lora
    from solfa.models.codec.bottlenecks import Fsq, Gaussian, Rvq
    from solfa.models.codec.codec_files import load_codec_model, save_codec_model
    from solfa.models.codec.config import CodecModelConfig
    from solfa.models.codec.network import CodecModel, Reconstruction
    from solfa.models.conditioners.key_names import KEYS, KeyName
    from solfa.models.conditioners.labels import LabelsConfig
    from solfa.models.conditioners.learnt_words import LearntWordsConfig
    from solfa.models.conditioners.numbers import NumberConfig
    from solfa.models.conditioners.protocol import Conditioner
    from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig
    from solfa.models.conditioners.text import TextConfig
    from solfa.models.conditioners.words import WordsConfig
    from solfa.models.flow.config import StableAudio3Config, StableAudioOpenConfig
    from solfa.models.flow.dits import FlowConditions
    from solfa.models.flow.generation import FlowSampling, draw_latents
    from solfa.models.flow.network import FlowNetwork, build_flow
    from solfa.models.listener.listener_files import load_listener, save_listener
    from solfa.models.listener.network import UNHEARD, CodesListener, ListenerConfig
    from solfa.models.lm.conditions import Conditions
    from solfa.models.lm.generation import GenerationSettings, generate
    from solfa.models.lm.musicgen import LoadedMusicgen, load_musicgen, save_musicgen
    from solfa.models.lm.network import CodecLM, CodecLMConfig, InputsAndTargets, cross_entropy, inputs_and_targets
    from solfa.models.lm.weight_layouts import lay_out_weights
    from solfa.models.mot.assembly import build_mot
    from solfa.models.mot.attention_experts import CopiedAttention, LoraAttention, SharedAttention
    from solfa.models.mot.config import MoTConfig, OneVocabulary
    from solfa.models.mot.ffn_experts import Bridge, CopiedFFN, LoraFFN
    from solfa.models.mot.joint import MixedSequence, text_then_audio
    from solfa.models.mot.ledger import LoadingReport
    from solfa.models.mot.network import MoT
    from solfa.models.mot.prefix import TextPrefix
    from solfa.models.mot.routing import IndexRouting, SliceRouting
    from solfa.models.mot.text_base import FrozenLM, load_base
    from solfa.models.mot.texts import Texts, TextsConfig
    from solfa.models.sashimi.config import CategoricalHeadConfig, DmlHeadConfig
    from solfa.models.sashimi.generation import GeneratedClasses, WaveformSampling, generate_classes
    from solfa.models.sashimi.heads import CategoricalHead, DmlHead, LogisticMixture, OutputHead
    from solfa.models.sashimi.network import Sashimi, SashimiConfig, previous_classes
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.models.adapters.lora": ["Lora"],
            "solfa.models.codec.bottlenecks": ["Fsq", "Gaussian", "Rvq"],
            "solfa.models.codec.codec_files": ["load_codec_model", "save_codec_model"],
            "solfa.models.codec.config": ["CodecModelConfig"],
            "solfa.models.codec.network": ["CodecModel", "Reconstruction"],
            "solfa.models.conditioners.key_names": ["KEYS", "KeyName"],
            "solfa.models.conditioners.labels": ["LabelsConfig"],
            "solfa.models.conditioners.learnt_words": ["LearntWordsConfig"],
            "solfa.models.conditioners.numbers": ["NumberConfig"],
            "solfa.models.conditioners.protocol": ["Conditioner"],
            "solfa.models.conditioners.set": ["ConditionerSet", "ConditionsConfig"],
            "solfa.models.conditioners.text": ["TextConfig"],
            "solfa.models.conditioners.words": ["WordsConfig"],
            "solfa.models.flow.config": ["StableAudio3Config", "StableAudioOpenConfig"],
            "solfa.models.flow.dits": ["FlowConditions"],
            "solfa.models.flow.generation": ["FlowSampling", "draw_latents"],
            "solfa.models.flow.network": ["FlowNetwork", "build_flow"],
            "solfa.models.listener.listener_files": ["load_listener", "save_listener"],
            "solfa.models.listener.network": ["UNHEARD", "CodesListener", "ListenerConfig"],
            "solfa.models.lm.conditions": ["Conditions"],
            "solfa.models.lm.generation": ["GenerationSettings", "generate"],
            "solfa.models.lm.musicgen": ["LoadedMusicgen", "load_musicgen", "save_musicgen"],
            "solfa.models.lm.network": [
                "CodecLM",
                "CodecLMConfig",
                "InputsAndTargets",
                "cross_entropy",
                "inputs_and_targets",
            ],
            "solfa.models.lm.weight_layouts": ["lay_out_weights"],
            "solfa.models.mot.assembly": ["build_mot"],
            "solfa.models.mot.attention_experts": ["CopiedAttention", "LoraAttention", "SharedAttention"],
            "solfa.models.mot.config": ["MoTConfig", "OneVocabulary"],
            "solfa.models.mot.ffn_experts": ["Bridge", "CopiedFFN", "LoraFFN"],
            "solfa.models.mot.joint": ["MixedSequence", "text_then_audio"],
            "solfa.models.mot.ledger": ["LoadingReport"],
            "solfa.models.mot.network": ["MoT"],
            "solfa.models.mot.prefix": ["TextPrefix"],
            "solfa.models.mot.routing": ["IndexRouting", "SliceRouting"],
            "solfa.models.mot.text_base": ["FrozenLM", "load_base"],
            "solfa.models.mot.texts": ["Texts", "TextsConfig"],
            "solfa.models.sashimi.config": ["CategoricalHeadConfig", "DmlHeadConfig"],
            "solfa.models.sashimi.generation": ["GeneratedClasses", "WaveformSampling", "generate_classes"],
            "solfa.models.sashimi.heads": ["CategoricalHead", "DmlHead", "LogisticMixture", "OutputHead"],
            "solfa.models.sashimi.network": ["Sashimi", "SashimiConfig", "previous_classes"],
        },
    )

__all__ = [
    "KEYS",
    "UNHEARD",
    "Bridge",
    "CategoricalHead",
    "CategoricalHeadConfig",
    "CodecLM",
    "CodecLMConfig",
    "CodecModel",
    "CodecModelConfig",
    "CodesListener",
    "Conditioner",
    "ConditionerSet",
    "Conditions",
    "ConditionsConfig",
    "CopiedAttention",
    "CopiedFFN",
    "DmlHead",
    "DmlHeadConfig",
    "FlowConditions",
    "FlowNetwork",
    "FlowSampling",
    "FrozenLM",
    "Fsq",
    "Gaussian",
    "GeneratedClasses",
    "GenerationSettings",
    "IndexRouting",
    "InputsAndTargets",
    "KeyName",
    "LabelsConfig",
    "LearntWordsConfig",
    "ListenerConfig",
    "LoadedMusicgen",
    "LoadingReport",
    "LogisticMixture",
    "Lora",
    "LoraAttention",
    "LoraFFN",
    "MixedSequence",
    "MoT",
    "MoTConfig",
    "NumberConfig",
    "OneVocabulary",
    "OutputHead",
    "Reconstruction",
    "Rvq",
    "Sashimi",
    "SashimiConfig",
    "SharedAttention",
    "SliceRouting",
    "StableAudio3Config",
    "StableAudioOpenConfig",
    "TextConfig",
    "TextPrefix",
    "Texts",
    "TextsConfig",
    "WaveformSampling",
    "WordsConfig",
    "build_flow",
    "build_mot",
    "cross_entropy",
    "draw_latents",
    "generate",
    "generate_classes",
    "inputs_and_targets",
    "lay_out_weights",
    "load_base",
    "load_codec_model",
    "load_listener",
    "load_musicgen",
    "previous_classes",
    "save_codec_model",
    "save_listener",
    "save_musicgen",
    "text_then_audio",
]
