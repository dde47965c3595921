"""Use a trained model without its trainer: requests in, clips out."""

from typing import TYPE_CHECKING

from solfa.lazy_names import lazy_names

if TYPE_CHECKING:
    from solfa.generate.clip import GeneratedClip
    from solfa.generate.diffusers_export import export_as_diffusers
    from solfa.generate.export import export_adapter, export_as_musicgen, export_model
    from solfa.generate.generator import ClipGenerator, HasLikelihood, OnStep
    from solfa.generate.language_model import LanguageModel
    from solfa.generate.latent_model import LatentModel
    from solfa.generate.model import Model, ModelInfo, load_model
    from solfa.generate.options import DrawOptions
    from solfa.generate.request import ClipRequest, Inpainting, Variation
    from solfa.generate.request_files import read_requests
    from solfa.generate.stream import AudioBlock, OnAudio
    from solfa.generate.text_model import TextModel
    from solfa.generate.waveform_model import WaveformModel
    from solfa.models.lm.weight_layouts import WeightLayout
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "solfa.generate.clip": ["GeneratedClip"],
            "solfa.generate.diffusers_export": ["export_as_diffusers"],
            "solfa.generate.export": ["export_adapter", "export_as_musicgen", "export_model"],
            "solfa.generate.generator": ["ClipGenerator", "HasLikelihood", "OnStep"],
            "solfa.generate.language_model": ["LanguageModel"],
            "solfa.generate.latent_model": ["LatentModel"],
            "solfa.generate.model": ["Model", "ModelInfo", "load_model"],
            "solfa.generate.options": ["DrawOptions"],
            "solfa.generate.request": ["ClipRequest", "Inpainting", "Variation"],
            "solfa.generate.request_files": ["read_requests"],
            "solfa.generate.stream": ["AudioBlock", "OnAudio"],
            "solfa.generate.text_model": ["TextModel"],
            "solfa.generate.waveform_model": ["WaveformModel"],
            "solfa.models.lm.weight_layouts": ["WeightLayout"],
        },
    )

__all__ = [
    "AudioBlock",
    "ClipGenerator",
    "ClipRequest",
    "DrawOptions",
    "GeneratedClip",
    "HasLikelihood",
    "Inpainting",
    "LanguageModel",
    "LatentModel",
    "Model",
    "ModelInfo",
    "OnAudio",
    "OnStep",
    "TextModel",
    "Variation",
    "WaveformModel",
    "WeightLayout",
    "export_adapter",
    "export_as_diffusers",
    "export_as_musicgen",
    "export_model",
    "load_model",
    "read_requests",
]
