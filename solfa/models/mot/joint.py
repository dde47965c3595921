"""Text and audio as one sequence in any order: each place uses its own experts, and all attend to what comes before.

This also keeps the graph of the text, which matters if text follows audio; for a text that only precedes audio it gives
the same as `MoT.hidden`, with more work.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Int64
from torch import Tensor, nn

from solfa.models.mot.layers import AudioLayer
from solfa.models.mot.llama_attention import attended, rotated
from solfa.models.mot.routing import Parts, Routing, SliceRouting
from solfa.models.mot.text_base import FrozenLM


class MixedSequence(NamedTuple):
    """One sequence of text and audio tokens, ordered by their routing, and the position of each."""

    text: Int64[Tensor, "*texts"]
    """Ids of the text places: [B, L] for slices, [places] by index."""
    audio: Int64[Tensor, "... K steps"]
    """Tokens of the audio places: [B, K, S] for slices, [1, K, places] by index."""
    positions: Int64[Tensor, "B S"]
    """The positions for the rotation; padding may have any."""
    real: Bool[Tensor, "B S"]
    """False for padding."""
    routing: Routing


def run_jointly(base: FrozenLM, layers: Iterable[nn.Module], parts: Parts, sequence: MixedSequence) -> Parts:
    """Run the embedded parts of a sequence through all layers of both kinds."""
    routing = sequence.routing
    angles = base.rotation(parts.text, sequence.positions)
    mask = _mask(sequence.real)
    for own, layer in zip(base.layers, layers, strict=True):
        assert isinstance(layer, AudioLayer)
        audio = layer.project(parts.audio, own)
        pairs = zip(_text_projections(parts.text, own), audio, strict=True)
        queries, keys, values = (routing.join(Parts(*pair)) for pair in pairs)
        turned = rotated((queries, keys, values), angles, base.sizes.head_dim)
        mixed = routing.split(attended(*turned, mask, is_causal=True))
        raised = layer.finish(parts.audio, mixed.audio.to(audio[0].dtype), own)
        parts = Parts(_finish_text(parts.text, mixed.text, own), raised)
    return parts


def text_then_audio(
    ids: Int64[Tensor, "B L"], lengths: Int64[Tensor, "B"], tokens: Int64[Tensor, "B K S"]
) -> MixedSequence:
    """Put audio after texts of different lengths; padding takes up no positions.

    >>> import torch
    >>> from solfa.models import text_then_audio
    >>> ids, lengths = torch.tensor([[7, 8, 9], [7, 0, 0]]), torch.tensor([3, 1])  # the second text is padded
    >>> text_then_audio(ids, lengths, tokens=torch.zeros(2, 4, 2, dtype=torch.int64)).positions
    tensor([[0, 1, 2, 3, 4],
            [0, 1, 2, 1, 2]])
    """
    num_text, num_audio = ids.shape[1], tokens.shape[2]
    text = torch.arange(num_text, device=ids.device).expand(len(ids), -1)
    audio = lengths[:, None] + torch.arange(num_audio, device=ids.device)
    real = torch.cat([text < lengths[:, None], torch.ones_like(audio, dtype=torch.bool)], dim=1)
    return MixedSequence(ids, tokens, torch.cat([text, audio], dim=1), real, SliceRouting(num_text))


def _text_projections(x: Tensor, own: nn.Module) -> tuple[Tensor, Tensor, Tensor]:
    normed, attention = own.input_layernorm(x), own.self_attn  # type: ignore[operator]
    return attention.q_proj(normed), attention.k_proj(normed), attention.v_proj(normed)  # type: ignore[operator,union-attr]


def _finish_text(x: Tensor, mixed: Tensor, own: nn.Module) -> Tensor:
    x = x + own.self_attn.o_proj(mixed)  # type: ignore[operator,union-attr]
    raised: Tensor = x + own.mlp(own.post_attention_layernorm(x))  # type: ignore[operator]
    return raised


def _mask(real: Bool[Tensor, "B S"]) -> Bool[Tensor, "B 1 S S"] | None:
    """Let every place see itself and the real places before it; None if that is all of them."""
    if bool(real.all()):
        return None
    places = real.shape[1]
    causal = torch.ones(places, places, dtype=torch.bool, device=real.device).tril()
    # Padding sees itself: a place that sees nothing would be NaN, and NaN times zero is NaN.
    itself = torch.eye(places, dtype=torch.bool, device=real.device)
    return ((causal & real[:, None, :]) | itself)[:, None]
