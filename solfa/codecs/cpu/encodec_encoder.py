"""EnCodec's SEANet encoder (arXiv 2210.13438) computed in pieces of time.

```
 audio -> [conv, stage] -> [stage] -> [stage] -> [stage] -> LSTM -> ELU -> conv -> embeddings
                            stage = residual blocks, ELU, downsampling convolution
```
The stages run clip by clip, the LSTM over all clips of the batch. Mimi has no LSTM, nor need codecs trained here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from solfa.codecs.cpu.convolution import (
    Convolution,
    FusedLayers,
    Padding,
    Placed,
    fold,
    has_fast_bf16,
    run_stages,
    span_of,
)
from solfa.codecs.cpu.exact_activations import elu, elu_
from solfa.codecs.cpu.lstm import residual_lstm


@dataclass(frozen=True)
class SeanetCompute:
    """What a stage does to a piece; the convolutions arrive in the order of `FusedLayers.convolutions`."""

    has_first: bool
    shortcuts: tuple[Convolution | None, ...]
    """One per residual block; None adds the block's input itself."""

    def __call__(self, x: Float[Tensor, "1 C n"], placed: Iterator[Placed]) -> Float[Tensor, "1 Z m"]:
        if self.has_first:
            x = next(placed)(x)
        for shortcut in self.shortcuts:
            inner, outer = next(placed), next(placed)
            skipped = outer.window.start - inner.window.start
            kept = x[..., skipped : skipped + outer.window.num_kept]
            added = kept if shortcut is None else outer._replace(conv=shortcut)(kept)
            x = outer(elu_(inner(elu(x))), added)
        return next(placed)(elu_(x) if self.shortcuts else elu(x))


def fold_padded(layer: Any) -> Convolution:
    """Read a padded convolution (transformers' or ours): all on the left if causal, else the smaller half right."""
    total = span_of(layer.conv.kernel_size[0], layer.conv.dilation[0]) - layer.conv.stride[0]
    right = 0 if layer.causal else total // 2
    return fold(layer.conv, Padding(total - right, right, layer.pad_mode, completes_last_frame=True))


def read_stages(layers: Sequence[Any]) -> list[FusedLayers]:
    """Group the layers of a SEANet encoder, up to its LSTM, into stages that end in a downsampling."""
    stages: list[FusedLayers] = []
    convolutions: list[Convolution] = []
    shortcuts: list[Convolution | None] = []
    for layer in layers:
        if hasattr(layer, "block"):
            convolutions += [fold_padded(layer.block[1]), fold_padded(layer.block[3])]
            shortcuts.append(None if isinstance(layer.shortcut, nn.Identity) else fold_padded(layer.shortcut))
        elif hasattr(layer, "conv"):
            convolutions.append(fold_padded(layer))
            if shortcuts:
                compute = SeanetCompute(has_first=not stages, shortcuts=tuple(shortcuts))
                beside = tuple(conv for conv in shortcuts if conv is not None)
                stages.append(FusedLayers(tuple(convolutions), compute, beside))
                convolutions, shortcuts = [], []
    return stages


def fast_encodec_encoder(model: nn.Module) -> Callable[[Float[Tensor, "B C N"]], Float[Tensor, "B Z T"]]:
    """Build a faster equivalent of `model.encoder`; see `fast_seanet_encoder`."""
    return fast_seanet_encoder(model.encoder)


def fast_seanet_encoder(encoder: Any) -> Callable[[Float[Tensor, "B C N"]], Float[Tensor, "B Z T"]]:
    """Build a faster equivalent of a SEANet laid out as in transformers or here, from its weights.

    It computes no gradients. The encoder itself is returned if the fast one does not apply: on devices other than the
    CPU, in fp16, in bf16 on processors without, with normalisation over time (EnCodec 48 kHz) or with activations other
    than EnCodec's. Very short clips are also passed to it, one by one.
    """
    if not _is_known(encoder):
        return encoder  # type: ignore[no-any-return]
    *layers, _, last = encoder.layers
    recurrent: Any = None if hasattr(layers[-1], "conv") else layers.pop()
    stages = read_stages(layers)
    lstm = residual_lstm(recurrent.lstm) if hasattr(recurrent, "lstm") else None
    tail = FusedLayers((fold_padded(last),), SeanetCompute(has_first=False, shortcuts=()))
    hop_length = prod(conv.stride[0] for conv in encoder.modules() if isinstance(conv, nn.Conv1d))
    shortest = hop_length * (2 + max(stage.widest for stage in [*stages, tail]))

    @torch.no_grad()
    def encode(audio: Float[Tensor, "B C N"]) -> Float[Tensor, "B Z T"]:
        if audio.shape[-1] < shortest:
            return torch.cat([encoder(clip) for clip in torch.split(audio, 1)])
        if lstm is None:
            return run_stages([*stages, tail], audio)
        return run_stages([tail], lstm(run_stages(stages, audio)))

    return encode


def _is_known(encoder: Any) -> bool:
    """Check the parts: residual blocks, every activation an ELU, only weight norms, a dtype that is computed fast."""
    layers = list(getattr(encoder, "layers", ()))
    blocks = [layer for layer in layers if hasattr(layer, "block")]
    inner = [part for block in blocks for part in block.block]
    plain = [part for part in (*layers, *inner) if not any(hasattr(part, name) for name in ("block", "conv", "lstm"))]
    return (
        bool(blocks)
        and all(isinstance(part, nn.Identity) or (isinstance(part, nn.ELU) and part.alpha == 1) for part in plain)
        and not any(isinstance(part, nn.GroupNorm) for part in encoder.modules())
        and all(p.device.type == "cpu" and _is_known_dtype(p.dtype) for p in encoder.parameters())
    )


def _is_known_dtype(dtype: torch.dtype) -> bool:
    return dtype in (torch.float32, torch.float64) or (dtype == torch.bfloat16 and has_fast_bf16())
