"""Convolutions with their weight norm folded, applied to a clip piece by piece."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.weight_norm import WeightNorm

from solfa.codecs.cpu.frame_kernel import FrameConvolution, load_frame_kernel, pack
from solfa.codecs.cpu.sum_order import ONEDNN_ELEMENTS, LayerShape, find_order
from solfa.codecs.cpu.tiles import Geometry, InputWindow, split_evenly, windows_of

TILE_BYTES = 1 << 21
"""Activations of one piece: near enough to the core to be cheap, long enough that calling torch costs little."""


@dataclass(frozen=True)
class Padding:
    """What a convolution adds at the two ends of a clip."""

    left: int
    right: int
    mode: str
    """As `torch.nn.functional.pad` names it."""
    by_convolution: bool = False
    """The plain module leaves the padding to the convolution. oneDNN chooses its kernel by that padding, so every piece
    asks for it too and drops the outputs it touched: then all pieces round as the plain module does."""
    completes_last_frame: bool = False
    """Pad on the right until the last stride is full, so that no sample is left out."""


@dataclass(frozen=True)
class Convolution:
    """Plain weights, and the numbers that place them in time."""

    weight: Float[Tensor, "out in k"]
    bias: Float[Tensor, "out"] | None
    stride: int
    dilation: int
    padding: Padding

    @property
    def span(self) -> int:
        return span_of(int(self.weight.shape[-1]), self.dilation)

    @property
    def shape(self) -> LayerShape:
        padding = self.padding.left if self.padding.by_convolution else 0
        width_out, width_in, taps = self.weight.shape
        return LayerShape(width_in, width_out, taps, self.stride, self.dilation, padding, self.bias is not None)

    @cached_property
    def compiled(self) -> FrameConvolution | None:
        """The same in C, equal to the last bit to what PyTorch computes with one thread; None if there is no such."""
        kernel = load_frame_kernel()
        order = None if kernel is None else find_order(kernel, self.shape)
        if kernel is None or order is None:
            return None
        return pack(kernel, self.weight, self.bias, self.stride, self.dilation, order)

    def over(self, num_in: int) -> Geometry:
        """Place the convolution over a clip of `num_in` samples."""
        completion = -num_in % self.stride if self.padding.completes_last_frame else 0
        left, right = self.padding.left, self.padding.right + completion
        return Geometry(self.span, self.stride, num_in, left, right, pads_itself=self.padding.by_convolution)


def span_of(kernel_size: int, dilation: int) -> int:
    """Count the samples from the first tap to the last, both included."""
    return (kernel_size - 1) * dilation + 1


def fold(conv: nn.Conv1d, padding: Padding) -> Convolution:
    """Take the weights out of `conv`; a weight norm is computed once here instead of at every call."""
    # The older kind of weight norm (diffusers') sets `conv.weight` only when the module is called.
    norms = [hook for hook in conv._forward_pre_hooks.values() if isinstance(hook, WeightNorm)]
    weight = norms[0].compute_weight(conv) if norms else conv.weight
    weight = frame_major(weight.detach()) if is_frame_major(weight.dtype) else weight.detach().contiguous()
    bias = None if conv.bias is None else conv.bias.detach()
    return Convolution(weight, bias, conv.stride[0], conv.dilation[0], padding)


class Placed(NamedTuple):
    """A convolution, its place in the clip, and what it reads for the current piece."""

    conv: Convolution
    geometry: Geometry
    window: InputWindow
    is_compiled: bool = False
    out: Tensor | None = None
    """Where the compiled kernel writes to."""

    def __call__(self, x: Float[Tensor, "1 in n"], added: Float[Tensor, "1 out m"] | None = None) -> Tensor:
        """Convolve the samples of the window, padding them where they touch an end of the clip; then add others."""
        window = self.window
        if self.geometry.pads_itself:
            kept = slice(window.num_dropped, window.num_dropped + window.num_kept)
            return plus(self._convolve(x, window.pad_left)[..., kept], added)
        if window.pad_left or window.pad_right:
            x = pad_ends(x, window.pad_left, window.pad_right, self.conv.padding.mode)
        if self.is_compiled:
            assert self.conv.compiled is not None
            return self.conv.compiled(x, window.num_kept, added, self.out)
        return plus(self._convolve(x, 0), added)

    def _convolve(self, x: Tensor, padding: int) -> Tensor:
        weight, bias, stride, dilation = self.conv.weight, self.conv.bias, self.conv.stride, self.conv.dilation
        if is_frame_major(x.dtype):
            out = F.conv2d(as_image(x), as_image(weight), bias, (1, stride), (0, padding), (1, dilation))
            return out.squeeze(2)
        if not self._must_ask_for_onednn(x):
            return F.conv1d(x, weight, bias, stride, padding, dilation)
        out = torch.ops.aten.mkldnn_convolution(
            x.unsqueeze(2), weight.unsqueeze(2), bias, (0, padding), (1, stride), (1, dilation), 1
        )
        return out.squeeze(2)  # type: ignore[no-any-return]

    def _must_ask_for_onednn(self, x: Tensor) -> bool:
        geometry = self.geometry
        padding = 0 if geometry.pads_itself else geometry.pad_left + geometry.pad_right
        num_samples = geometry.num_in + padding
        return (
            x.numel() <= ONEDNN_ELEMENTS < x.shape[1] * num_samples
            and self.conv.weight.shape[-1] > 1
            and x.dtype == torch.float32
            and has_onednn()
        )


class FusedLayers(NamedTuple):
    """Layers that are computed together: the convolutions a window passes through, and what happens to a piece."""

    convolutions: tuple[Convolution, ...]
    compute: Callable[[Float[Tensor, "1 C n"], Iterator[Placed]], Float[Tensor, "1 Z m"]]
    shortcuts: tuple[Convolution, ...] = ()
    """Convolutions that a window passes beside those."""

    @property
    def frames_per_tile(self) -> int:
        """Output frames of a piece; large weights, which are read or reordered for every piece, need longer ones."""
        last = self.convolutions[-1]
        weight_bytes = sum(conv.weight.numel() * conv.weight.element_size() for conv in self.convolutions)
        bytes_per_frame = last.weight.shape[1] * last.stride * last.weight.element_size()
        return max(2 * self.widest + 2, max(TILE_BYTES, weight_bytes) // bytes_per_frame)

    def is_compiled(self, chain: Sequence[Geometry]) -> bool:
        """Say whether the compiled kernel computes a clip exactly as PyTorch does in this process.

        It has one thread, and no clip is so short that PyTorch might take other ways than those that were compared.
        """
        return (
            all(conv.weight.dtype == torch.float32 for conv in self.convolutions)
            and torch.get_num_threads() == 1
            and has_onednn()
            and all(
                conv.shape.has_usual_kernel(geometry.num_in)
                for conv, geometry in zip(self.convolutions, chain, strict=True)
            )
            and all(conv.compiled is not None for conv in (*self.convolutions, *self.shortcuts))
        )

    @property
    def widest(self) -> int:
        """The longest span: half a piece is longer than it, so a piece can be mirrored at an end of the clip."""
        return max(conv.span for conv in self.convolutions)


def is_frame_major(dtype: torch.dtype) -> bool:
    """Say whether the channels of a frame are next to each other in memory while a dtype is computed.

    That is how oneDNN computes; other layouts are converted and back at every convolution, which takes as long as the
    bf16 products themselves. In fp32 it would round differently there, so only the compiled kernel does it.
    """
    return dtype == torch.bfloat16


def frame_major(x: Float[Tensor, "B C n"]) -> Float[Tensor, "B C n"]:
    """Lay out the channels of a frame next to each other."""
    return x.mT.contiguous().mT


def as_image(x: Float[Tensor, "B C n"]) -> Float[Tensor, "B C 1 n"]:
    """View frames as an image of one row whose strides say their layout, which those of a single channel leave open."""
    assert x.mT.is_contiguous()
    num_clips, num_channels, num_frames = x.shape
    size = num_channels * num_frames
    return x.as_strided((num_clips, num_channels, 1, num_frames), (size, 1, size, num_channels))


def pad_ends(x: Float[Tensor, "1 C n"], left: int, right: int, mode: str) -> Float[Tensor, "1 C m"]:
    """Pad in time and keep the layout; only the samples near the ends are looked at."""
    reach = max(left, right) + 1
    head = F.pad(x[..., :reach], (left, 0), mode)[..., :left]
    tail = F.pad(x[..., -reach:], (0, right), mode)[..., -right:] if right else x[..., :0]
    return torch.cat([head.mT, x.mT, tail.mT], dim=1).mT if x.mT.is_contiguous() else torch.cat([head, x, tail], dim=2)


def plus(x: Float[Tensor, "1 C n"], added: Float[Tensor, "1 C n"] | None) -> Float[Tensor, "1 C n"]:
    """Add in place, if there is something to add."""
    return x if added is None else x.add_(added)


def has_onednn() -> bool:
    """Say whether torch may use oneDNN now."""
    return bool(torch.backends.mkldnn.enabled) and bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def has_fast_bf16() -> bool:
    """Say whether oneDNN has bf16 on this processor."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def run_stage(stage: FusedLayers, x: Float[Tensor, "1 C N"]) -> Float[Tensor, "1 Z T"]:
    """Compute one stage over a whole clip."""
    chain: list[Geometry] = []
    for conv in stage.convolutions:
        chain.append(conv.over(chain[-1].num_out if chain else int(x.shape[-1])))
    is_compiled = stage.is_compiled(chain)
    if is_compiled:  # which needs no padding where there is none
        chain = [replace(geometry, pads_itself=False) for geometry in chain]
    num_frames = chain[-1].num_out
    width = int(stage.convolutions[-1].weight.shape[0])
    by_frames = is_compiled or is_frame_major(x.dtype)
    out = x.new_empty(1, num_frames, width).mT if by_frames else x.new_empty(1, width, num_frames)
    for first, last in split_evenly(num_frames, stage.frames_per_tile):
        windows = windows_of(chain, first, last)
        # Contiguous, because torch computes the last elements of strided rows with different instructions.
        piece = x[..., windows[0].start : windows[0].stop]
        piece = frame_major(piece) if by_frames else piece.contiguous()
        if is_compiled:
            targets = [*repeat(None, len(chain) - 1), out[..., first:last]]
            stage.compute(piece, map(Placed, stage.convolutions, chain, windows, repeat(True), targets))
        else:
            out[..., first:last] = stage.compute(piece, map(Placed, stage.convolutions, chain, windows))
    return out


def run_stages(stages: Sequence[FusedLayers], audio: Float[Tensor, "B C N"]) -> Float[Tensor, "B Z T"]:
    """Compute all stages clip by clip, so that no clip's numbers depend on the rest of its batch."""
    clips = []
    for clip in torch.split(audio, 1):
        for stage in stages:
            clip = run_stage(stage, clip)
        clips.append(clip.contiguous())
    return torch.cat(clips)
