"""A listener in the terms of a model's conditions: how probable it is that clips have what they were told."""

from collections.abc import Mapping
from typing import Any, Self, final

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from solfa.errors import ConfigError
from solfa.generate.data_codec import codes_array
from solfa.models.conditioners.protocol import NumbersValues
from solfa.models.conditioners.set import ConditionerSet
from solfa.models.listener.listener_files import load_listener
from solfa.models.listener.network import CodesListener


@final
class ConditionListener:
    """Hears codes with a listener, which stays on the CPU, and compares them with what was told."""

    def __init__(self, listener: CodesListener, conditioner: NumbersValues) -> None:
        self._listener, self._conditioner = listener, conditioner

    @classmethod
    def load(cls, directory: str, conditioners: ConditionerSet, data_facts: Mapping[str, Any]) -> Self:
        """Load a listener, and refuse one that tells another condition or hears other codes than the model's."""
        listener, array = load_listener(directory), codes_array(data_facts)
        config, name = listener.config, listener.config.condition
        conditioner: object = dict(conditioners.conditioners.items()).get(name)
        if not isinstance(conditioner, NumbersValues) or conditioner.num_values != config.num_values:
            told = ", ".join(f"{name} ({part.kind})" for name, part in conditioners.config.conditioners.items())
            raise ConfigError(
                f"listener {directory}: it tells {config.num_values} values of the condition {name!r}, and the model "
                f"has {told or 'no conditions'}; remove this folder, or train a listener for this model"
            )
        hears = (config.num_codebooks, config.codebook_size, config.codec_fingerprint)
        drawn = (array.width, array.codebook_size, data_facts.get("codec_fingerprint"))
        if hears != drawn:
            raise ConfigError(
                f"listener {directory}: expected {_codes(*drawn)}, as the model draws them, found {_codes(*hears)}; "
                "remove this folder, or train a listener for this model"
            )
        return cls(listener, conditioner)

    @torch.inference_mode()
    def log_probs(self, told: Mapping[str, Any], codes: Int64[Tensor, "N K T"]) -> Float[Tensor, "N"] | None:
        """Return the log-probability that each clip counts as what it was told; None if it was told nothing."""
        numbers = list(self._conditioner.numbers(told.get(self._listener.config.condition)))
        return self._listener(codes.cpu()).log_softmax(dim=1)[:, numbers].logsumexp(dim=1) if numbers else None


def _codes(num_codebooks: int, codebook_size: int | None, fingerprint: str | None) -> str:
    return f"{num_codebooks} codebooks of {codebook_size} codes of the codec {str(fingerprint)[:16]}"
