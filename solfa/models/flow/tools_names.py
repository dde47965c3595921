"""Rename the tensors of stable-audio-tools' diffusion transformers to those of diffusers, one to one.

theirs                                     Stable Audio Open                     Stable Audio 3
transformer.project_in, .project_out       proj_in, proj_out                     the same
timestep_features.weight                   time_proj.weight                      (computed)
to_timestep_embed                          timestep_proj                         to_timestep_embed
to_global_embed, to_cond_embed             global_proj, cross_attention_proj     (as theirs)
transformer.layers.i                       transformer_blocks.i                  the same
  pre_norm, cross_attend_norm, ff_norm       norm1, norm2, norm3 (weight, bias)    (as theirs)
  self_attn.to_qkv                           attn1.to_q, .to_k, .to_v              parts in another order
  cross_attn.to_kv                           attn2.to_k, .to_v                     (as theirs)
  ff.ff.0.proj, ff.ff.2                      ff.net.0.proj, ff.net.2               ff.proj_in, ff.proj_out
"""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

State = Mapping[str, Tensor]
Translated = tuple[dict[str, Tensor], dict[str, Tensor] | None]
"""The tensors of a network and its numbers, and the projection of texts, if there is one."""

_OPEN = (
    (r"^transformer\.layers\.", "transformer_blocks."),
    (r"^transformer\.project_(in|out)\.", r"proj_\1."),
    (r"^to_timestep_embed\.", "timestep_proj."),
    (r"^timestep_features\.", "time_proj."),
    (r"^to_global_embed\.", "global_proj."),
    (r"^to_cond_embed\.", "cross_attention_proj."),
    (r"\.pre_norm\.", ".norm1."),
    (r"\.cross_attend_norm\.", ".norm2."),
    (r"\.ff_norm\.", ".norm3."),
    (r"\.gamma$", ".weight"),
    (r"\.beta$", ".bias"),
    (r"\.self_attn\.", ".attn1."),
    (r"\.cross_attn\.", ".attn2."),
    (r"\.to_out\.", ".to_out.0."),
    (r"\.ff\.ff\.", ".ff.net."),
)
_THREE = (
    (r"^transformer\.layers\.", "transformer_blocks."),
    (r"^transformer\.project_(in|out)\.", r"proj_\1."),
    (r"^transformer\.", ""),
    (r"\.ff\.ff\.0\.proj\.", ".ff.proj_in."),
    (r"\.ff\.ff\.2\.", ".ff.proj_out."),
)
_ROTARY = "transformer.rotary_pos_emb.inv_freq"
"""Computed from the width of a head, which the rotation of Stable Audio Open keeps to itself."""


def open_tensors(network: State, conditioner: State, timing: Sequence[str], differential: bool) -> Translated:
    """Translate Stable Audio Open; a tensor with no place keeps its name, and is refused by it."""
    state: dict[str, Tensor] = {}
    for name, tensor in network.items():
        if name == _ROTARY:
            continue
        ours = f"dit.{_renamed(name, _OPEN)}"
        parts = {"attn1.to_qkv.": "qkv", "attn2.to_kv.": "kv"}
        fused = next((letters for part, letters in parts.items() if part in ours), None)
        if fused is None:
            # Their features are a matrix of one column.
            state[ours] = tensor[:, 0] if ours == "dit.time_proj.weight" and tensor.ndim == 2 else tensor
            continue
        for letter, part in zip(fused, tensor.chunk(len(fused)), strict=True):
            state[ours.replace(f"to_{fused}.", f"to_{letter}.")] = part
    numbers = {"embedder.embedding.": "time_positional_embedding."}
    return _with_conditions(state, conditioner, timing, numbers)


def three_tensors(network: State, conditioner: State, timing: Sequence[str], differential: bool) -> Translated:
    """Translate Stable Audio 3; the frequencies of its numbers are computed here and not stored there."""
    from diffusers.pipelines.stable_audio_3.modeling_stable_audio_3 import StableAudio3DurationEmbedder

    state: dict[str, Tensor] = {}
    for name, tensor in network.items():
        ours = f"dit.{_renamed(name, _THREE)}"
        state[ours] = tensor
        if differential and ours.endswith("self_attn.to_qkv.weight"):
            query, key, value, query2, key2 = tensor.chunk(5)
            state[ours] = torch.cat([query, query2, key, key2, value])
    translated, projection = _with_conditions(state, conditioner, timing, {"embedder.embedding.1.": "linear."})
    for place in range(len(timing)):
        translated[f"seconds.{place}.freqs"] = StableAudio3DurationEmbedder(output_dim=1).freqs
    # Those that were trained with zeros for missing words have no embedding of them.
    width = network["to_cond_embed.0.weight"].shape[1] if "to_cond_embed.0.weight" in network else 0
    translated.setdefault("dit.prompt_padding_embedding", torch.zeros(width))
    return translated, projection


def _with_conditions(
    state: dict[str, Tensor], conditioner: State, timing: Sequence[str], numbers: Mapping[str, str]
) -> Translated:
    """Add the tensors of the conditioners: those of the seconds, and of the text what is not its encoder."""
    projection: dict[str, Tensor] = {}
    for name, tensor in conditioner.items():
        _, who, rest = (*name.split(".", 2), "", "")[:3]
        if who in timing:
            for theirs, ours in numbers.items():
                rest = rest.replace(theirs, ours, 1)
            state[f"seconds.{timing.index(who)}.{rest}"] = tensor
        elif rest.startswith("proj_out."):
            projection[rest.removeprefix("proj_out.")] = tensor
        elif rest == "padding_embedding":
            state["dit.prompt_padding_embedding"] = tensor
        else:
            state[f"conditioner.{name}"] = tensor
    return state, projection or None


def _renamed(name: str, rules: Sequence[tuple[str, str]]) -> str:
    for pattern, replacement in rules:
        name = re.sub(pattern, replacement, name)
    return name
