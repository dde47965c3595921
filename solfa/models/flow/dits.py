"""The diffusion transformers of diffusers behind one interface, with masks that really mask.

    points [B, Z, T], times, conditions, which frames exist, what is known of the clip ──► prediction [B, Z, T]

Frames that do not exist change nothing: a padded clip gives what it gives alone.
"""

from typing import Any, NamedTuple, final

import torch
import torch.nn.functional as F
from diffusers import StableAudio3DiTModel, StableAudioDiTModel
from diffusers.models.attention_dispatch import dispatch_attention_fn
from diffusers.models.embeddings import get_1d_rotary_pos_embed
from diffusers.models.transformers.transformer_stable_audio3 import _apply_rotary_partial
from diffusers.pipelines.stable_audio.modeling_stable_audio import StableAudioNumberConditioner
from diffusers.pipelines.stable_audio_3.modeling_stable_audio_3 import StableAudio3DurationEmbedder
from jaxtyping import Bool, Float
from torch import Tensor, nn

from solfa.models.conditioners.set import attended
from solfa.models.flow.config import StableAudio3Config, StableAudioOpenConfig


class FlowConditions(NamedTuple):
    """What a network is told about each clip, at the width of its conditions."""

    context: Float[Tensor, "B L C"]
    """For the cross-attention of every layer."""
    context_mask: Bool[Tensor, "B L"]
    """False for padding."""
    timing: Float[Tensor, "B M C"]
    """One vector per name in `timing`."""
    timing_heard: Bool[Tensor, "B"]
    """Whether the timing is in the context, too; what is said for all frames alike has it always."""
    summed: Float[Tensor, "B C"]
    """For all frames alike; zeros if there is nothing."""

    def whole_context(self) -> tuple[Float[Tensor, "B N C"], Bool[Tensor, "B N"]]:
        """Put the timing behind the context: it counts for both."""
        known = self.context_mask.new_ones(self.timing.shape[:2])
        mask = torch.cat([self.context_mask, known], dim=1)
        timing = self.timing * self.timing_heard[:, None, None]
        return torch.cat([self.context, timing], dim=1), attended(mask)


def joined(first: FlowConditions, second: FlowConditions) -> FlowConditions:
    """Put two batches behind each other; the shorter contexts are padded, which nobody hears."""
    longest = max(first.context.shape[1], second.context.shape[1])
    parts = []
    for one in (first, second):
        missing = longest - one.context.shape[1]
        context, mask = F.pad(one.context, (0, 0, 0, missing)), F.pad(one.context_mask, (0, missing))
        parts.append(one._replace(context=context, context_mask=mask))
    return FlowConditions(*map(torch.cat, zip(*parts, strict=True)))


@final
class StableAudio3Dit(nn.Module):
    """Stable Audio 3."""

    def __init__(self, config: StableAudio3Config, num_channels: int) -> None:
        super().__init__()
        network: Any = StableAudio3DiTModel  # whose parts mypy does not know
        self.dit = network(
            io_channels=num_channels,
            embed_dim=config.dim,
            depth=config.num_layers,
            num_heads=config.num_heads,
            cond_token_dim=config.cond_dim,
            global_cond_dim=config.cond_dim,
            local_add_cond_dim=num_channels + 1,
            ff_mult=config.ffn_ratio,
            num_memory_tokens=config.num_memory_tokens,
            use_differential_attention=config.differential,
        )
        # Stands in for missing words where texts are filled up to one length; elsewhere masks do that.
        self.dit.prompt_padding_embedding.requires_grad_(config.context_tokens is not None)
        for block in self.dit.transformer_blocks:
            block.self_attn.set_processor(_MaskedAttention())
            for norm in (block.pre_norm, block.cross_attend_norm, block.ff_norm):
                norm.eps = config.norm_eps
        self.seconds = nn.ModuleList(
            StableAudio3DurationEmbedder(output_dim=config.cond_dim, max_val=config.max_seconds) for _ in config.timing
        )

    @property
    def filler(self) -> Float[Tensor, "C"]:
        padding: Tensor = self.dit.prompt_padding_embedding
        return padding

    def embed_seconds(self, seconds: Float[Tensor, "B M"]) -> Float[Tensor, "B M C"]:
        vectors = [embed(column) for embed, column in zip(self.seconds, seconds.unbind(1), strict=True)]
        return torch.stack(vectors, dim=1)

    def forward(
        self,
        points: Float[Tensor, "B Z T"],
        times: Float[Tensor, "B"],
        conditions: FlowConditions,
        mask: Bool[Tensor, "B T"] | None,
        known: Float[Tensor, "B Y T"] | None,
    ) -> Float[Tensor, "B Z T"]:
        """Do what the network of diffusers does, with masks for frames and for the context."""
        dit, size = self.dit, self.dit.config.num_memory_tokens
        context, context_mask = conditions.whole_context()
        step = dit.to_timestep_embed(dit.timestep_features(times[:, None]).to(points.dtype))
        overall = conditions.timing.sum(dim=1) + conditions.summed
        frames = dit.proj_in((dit.preprocess_conv(points) + points).transpose(1, 2))
        if size:
            frames = torch.cat([dit.memory_tokens.expand(len(points), -1, -1), frames], dim=1)
        if mask is not None:
            mask = attended(torch.cat([mask.new_ones(len(mask), size), mask], dim=1))
        shared = {
            "context": dit.to_cond_embed(context),
            "global_modulation": dit.global_cond_embedder(dit.to_global_embed(overall) + step),
            "rope": _Places(dit.rotary_pos_emb(frames.shape[1], frames.device), mask),
            "context_mask": None if bool(context_mask.all()) else context_mask,
            "local_seq": None if known is None else known.transpose(1, 2),
            "num_memory_tokens": size,
        }
        for block in dit.transformer_blocks:
            frames = block(frames, **shared)
        output = dit.proj_out(frames[:, size:]).transpose(1, 2)
        predicted: Tensor = dit.postprocess_conv(output) + output
        return predicted


class _Places(NamedTuple):
    """Where the frames are, and which of them exist: what a layer's self-attention is given."""

    rope: Tensor
    mask: Bool[Tensor, "B N"] | None


class _MaskedAttention:
    """The self-attention of Stable Audio 3, which in diffusers has no mask."""

    _attention_backend = None
    _parallel_config = None

    def __call__(self, attn: Any, hidden_states: Tensor, rope: _Places) -> Tensor:
        mask = None if rope.mask is None else rope.mask[:, None, None, :]
        parts = attn.to_qkv(hidden_states).chunk(5 if attn.use_differential else 3, dim=-1)
        *turned, values = (part.unflatten(-1, (attn.heads, attn.dim_heads)) for part in parts)
        half = len(turned) // 2
        queries = [_apply_rotary_partial(attn.q_norm(part), rope.rope) for part in turned[:half]]
        keys = [_apply_rotary_partial(attn.k_norm(part), rope.rope) for part in turned[half:]]
        first, *second = (
            dispatch_attention_fn(query, key, values, attn_mask=mask) for query, key in zip(queries, keys, strict=True)
        )
        mixed = first - second[0] if second else first
        output: Tensor = attn.to_out(mixed.flatten(2, 3))
        return output


@final
class StableAudioOpenDit(nn.Module):
    """Stable Audio Open."""

    def __init__(self, config: StableAudioOpenConfig, num_channels: int) -> None:
        super().__init__()
        self.head_dim = config.dim // config.num_heads
        network: Any = StableAudioDiTModel
        self.dit = network(
            in_channels=num_channels,
            out_channels=num_channels,
            num_layers=config.num_layers,
            attention_head_dim=self.head_dim,
            num_attention_heads=config.num_heads,
            num_key_value_attention_heads=config.num_kv_heads,
            cross_attention_dim=config.cross_dim or config.cond_dim,
            cross_attention_input_dim=config.cond_dim,
            global_states_input_dim=max(1, len(config.timing)) * config.cond_dim,
        )
        self.seconds = nn.ModuleList(
            StableAudioNumberConditioner(config.cond_dim, 0.0, config.max_seconds) for _ in config.timing
        )

    @property
    def filler(self) -> Float[Tensor, "C"]:
        weight: Tensor = self.dit.cross_attention_proj[0].weight
        return weight.new_zeros(weight.shape[1])

    def embed_seconds(self, seconds: Float[Tensor, "B M"]) -> Float[Tensor, "B M C"]:
        return torch.cat([embed(column) for embed, column in zip(self.seconds, seconds.unbind(1), strict=True)], dim=1)

    def forward(
        self,
        points: Float[Tensor, "B Z T"],
        times: Float[Tensor, "B"],
        conditions: FlowConditions,
        mask: Bool[Tensor, "B T"] | None,
        known: Float[Tensor, "B Y T"] | None,
    ) -> Float[Tensor, "B Z T"]:
        """Call the network of diffusers; it has no way to be told what is known of a clip."""
        context, context_mask = conditions.whole_context()
        parts = conditions.timing if len(self.seconds) else conditions.summed[:, None]
        overall = (parts + conditions.summed[:, None] if len(self.seconds) else parts).flatten(1)
        places = get_1d_rotary_pos_embed(
            max(self.head_dim // 2, 32), points.shape[2] + 1, use_real=True, repeat_interleave_real=False
        )
        predicted: Tensor = self.dit(
            points,
            times,
            encoder_hidden_states=context * context_mask[..., None],
            global_hidden_states=overall[:, None],
            rotary_embedding=tuple(place.to(points.device) for place in places),
            attention_mask=mask,
            encoder_attention_mask=context_mask,
            return_dict=False,
        )[0]
        return predicted
