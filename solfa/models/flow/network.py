"""A flow model as one network: the transformer, its conditioners, and the scale of the latents it was trained on.

latents [B, T, Z] ──► normalised [B, Z, T] ──► noised ──► transformer ──► prediction ──► back to latents
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig
from solfa.models.flow.config import FlowModelConfig, StableAudio3Config
from solfa.models.flow.dits import FlowConditions, StableAudio3Dit, StableAudioOpenDit
from solfa.models.lm.conditions import Conditions


class FlowNetwork(nn.Module):
    """Predicts where noised latents come from, given what is known about each clip."""

    mean: Float[Tensor, "Z 1"]
    std: Float[Tensor, "Z 1"]
    trained_frames: Int64[Tensor, ""]
    """The length that the network was trained on; longer clips are drawn in windows. 0 if it is not known."""

    def __init__(self, config: FlowModelConfig, conditions: ConditionsConfig, num_channels: int) -> None:
        super().__init__()
        self.config, self.num_channels = config, num_channels
        if conditions.uses_clock:
            raise ConfigError(
                "conditioner: a condition of kind tempo drives the clock of a language model, and a flow model has "
                "none; use kind number for its tempo"
            )
        self.conditioners = ConditionerSet(conditions, config.cond_dim)
        self.dit: StableAudio3Dit | StableAudioOpenDit = (
            StableAudio3Dit(config, num_channels)
            if isinstance(config, StableAudio3Config)
            else StableAudioOpenDit(config, num_channels)
        )
        self.register_buffer("mean", torch.zeros(num_channels, 1))
        self.register_buffer("std", torch.ones(num_channels, 1))
        self.register_buffer("trained_frames", torch.zeros((), dtype=torch.int64))

    def open_to_adapters(self) -> nn.Module:
        network: nn.Module = self.dit.dit
        return network

    @property
    def hears_known(self) -> bool:
        """Whether the network itself can be told what is known of a clip."""
        return isinstance(self.dit, StableAudio3Dit)

    @property
    def says_nothing_is_known(self) -> bool:
        """Whether hearing that nothing of a clip is given is the same as not hearing anything."""
        if not isinstance(self.dit, StableAudio3Dit):
            return True
        nothing = self.mean.new_zeros(1, self.num_channels + 1)
        return not any(bool(block.to_local_embed(nothing).any()) for block in self.dit.dit.transformer_blocks)

    def hear_nothing(self) -> None:
        """Leave the layers that hear what is known as they are: nothing is ever given in training."""
        if isinstance(self.dit, StableAudio3Dit):
            for block in self.dit.dit.transformer_blocks:
                block.to_local_embed.requires_grad_(False)

    def forward(
        self,
        points: Float[Tensor, "B Z T"],
        times: Float[Tensor, "B"],
        tokens: Mapping[str, Any],
        seconds: Float[Tensor, "B M"],
        mask: Bool[Tensor, "B T"] | None,
        known: Float[Tensor, "B Y T"] | None,
    ) -> Float[Tensor, "B Z T"]:
        """Predict from noised latents and the tokens of their conditions."""
        return self.predict(points, times, self.told(self.conditioners(tokens), seconds), mask, known)

    def predict(
        self,
        points: Float[Tensor, "B Z T"],
        times: Float[Tensor, "B"],
        conditions: FlowConditions,
        mask: Bool[Tensor, "B T"] | None = None,
        known: Float[Tensor, "B Y T"] | None = None,
    ) -> Float[Tensor, "B Z T"]:
        """Predict from noised latents and conditions; `known` is the mask and the values of given frames."""
        if known is None and self.hears_known:
            # Always through the same layers: distributed training waits for the gradient of every parameter.
            known = points.new_zeros(len(points), self.num_channels + 1, points.shape[2])
        predicted: Tensor = self.dit(points, times, conditions, mask, known)
        return predicted

    def told(self, conditions: Conditions, seconds: Float[Tensor, "B M"]) -> FlowConditions:
        """Put together what the conditioners say and the timing; whatever is not there is zeros."""
        cross, prepended, summed = conditions.cross, conditions.prepended, conditions.summed
        empty = self.mean.new_zeros(len(seconds), 0 if self.config.timing else 1, self.config.cond_dim)
        parts = [part for part in (cross, prepended) if part is not None] or [empty]
        masks = [torch.ones(part.shape[:2], dtype=torch.bool, device=part.device) for part in parts]
        if cross is not None and conditions.cross_mask is not None:
            masks[0] = conditions.cross_mask
        timing = self.dit.embed_seconds(seconds.to(self.mean)) if self.config.timing else empty[:, :0]
        overall = empty.new_zeros(len(seconds), self.config.cond_dim) if summed is None else summed[:, 0]
        context, mask = torch.cat(parts, dim=1), torch.cat(masks, dim=1)
        if self.config.context_tokens is None:
            return FlowConditions(context, mask, timing, mask.new_ones(len(mask)), overall)
        # What is absent is zeros, whatever the reason.
        is_told = context.ne(0).any(dim=2).any(dim=1) | (not self.conditioners.conditioners)
        filled = self._filled(context, mask & is_told[:, None]) * is_told[:, None, None]
        return FlowConditions(filled, mask.new_ones(filled.shape[:2]), timing, is_told, overall)

    def _filled(self, context: Float[Tensor, "B L C"], mask: Bool[Tensor, "B L"]) -> Float[Tensor, "B N C"]:
        """Put what stands for missing conditions behind and between those that there are."""
        size, found = self.config.context_tokens, context.shape[1]
        assert size is not None
        if found > size:
            raise ConfigError(
                f"model.context_tokens: expected at least the {found} tokens of the conditions, found {size}; set "
                f"max_tokens of the text conditioner to {size} or less"
            )
        filler = self.dit.filler.to(context)
        known = torch.where(mask[..., None], context, filler)
        return torch.cat([known, filler.expand(len(context), size - found, -1)], dim=1)

    def normalised(self, latents: Float[Tensor, "B T Z"]) -> Float[Tensor, "B Z T"]:
        """Bring every channel to mean 0 and standard deviation 1."""
        return (latents.transpose(1, 2) - self.mean) / self.std

    def restored(self, points: Float[Tensor, "B Z T"]) -> Float[Tensor, "B T Z"]:
        """Undo `normalised`."""
        return (points * self.std + self.mean).transpose(1, 2)


def build_flow(
    config: FlowModelConfig,
    conditions: ConditionsConfig,
    num_channels: int,
    values_of: Callable[[str], Iterable[Any]] | None = None,
) -> FlowNetwork:
    """Size a model to its data; `values_of` returns a column of the training data, to learn labels from.

    >>> from solfa.models import ConditionsConfig, StableAudio3Config, build_flow
    >>> size = StableAudio3Config(kind="stable_audio_3", dim=16, num_layers=1, num_heads=2, cond_dim=8)
    >>> network = build_flow(size, ConditionsConfig(), num_channels=64)
    >>> network.num_channels, network.hears_known
    (64, True)
    """
    network = FlowNetwork(config, conditions, num_channels)
    if values_of is not None:
        columns = conditions.sources
        network.conditioners.fit({name: values_of(columns[name]) for name in network.conditioners.to_fit})
    return network


def known_frames(latents: Float[Tensor, "B Z T"], given: Bool[Tensor, "B T"]) -> Float[Tensor, "B Y T"]:
    """Return what a network is told about frames that are given: whether, and if so, which values."""
    there = given[:, None].to(latents)
    return torch.cat([there, latents * there], dim=1)
