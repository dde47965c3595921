"""Rename the tensors of stable-audio-tools checkpoints to the layers of transformers and diffusers, one to one.

Their modules are numbered sequences. With n strides, and the container c = `layers` (oobleck) or `block` (dac):

    theirs                      ours                    theirs                      ours
    ENC.0                       encoder.conv1           DEC.0                       decoder.conv1
    ENC.{i+1}.c.{0,1,2}         encoder.block.i         DEC.{i+1}.c.0               decoder.block.i.snake1
                                  .res_unit{1,2,3}      DEC.{i+1}.c.1                 .conv_t1
    ENC.{i+1}.c.3               .snake1                 DEC.{i+1}.c.{2,3,4}           .res_unit{1,2,3}
    ENC.{i+1}.c.4               .conv1                  DEC.{n+1}                   decoder.snake1
    ENC.{n+1}                   encoder.snake1          DEC.{n+2}                   decoder.conv2
    ENC.{n+2}                   encoder.conv2           a residual unit's c.0 .. 3: snake1, conv1, snake2, conv2

A seanet's modules have the same numbers here and there; each convolution is one level deeper there (conv.conv,
convtr.convtr).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.pretrained.account import check_accounted

_TRAINING = (
    "autoencoder_ema.",
    "discriminator.",
    "losses_",
    "sdstft.",
    "lrstft.",
    "mrmel.",
    "hubert.",
    "teacher_model.",
)
"""What a training checkpoint holds besides the autoencoder: its moving average, discriminators and losses."""


@dataclass(frozen=True)
class Layout:
    """Which of their modules corresponds to each of ours."""

    modules: Mapping[str, str]
    """Our module to theirs."""
    folds_weight_norm: bool
    """Whether their pair weight_g, weight_v becomes our single weight."""
    tensors: Mapping[str, str] = field(default_factory=dict)
    """Our name of a tensor in a module to theirs, where it differs."""

    def translate(self, own: Mapping[str, Tensor], state: Mapping[str, Tensor], where: str) -> dict[str, Tensor]:
        """Rename and reshape `state` to fit `own`; tensors that are missing, extra or of another shape are named."""
        sources = {key: self._sources(key) for key in own}
        wanted = {source for names in sources.values() for source in names}
        check_accounted(wanted - state.keys(), state.keys() - wanted, (), where)
        fitted = {key: _join([state[name].float() for name in names], own[key]) for key, names in sources.items()}
        check_accounted((), (), [_mismatch(key, sources, own, state) for key in own if fitted[key] is None], where)
        return {key: tensor for key, tensor in fitted.items() if tensor is not None}

    def _sources(self, key: str) -> tuple[str, ...]:
        module, _, tensor = key.rpartition(".")
        theirs = self.modules[module]
        # Their projection and codebooks are the only modules without weight norm.
        plain = tensor != "weight" or module == "projection" or module.endswith(".codebook")
        if self.folds_weight_norm and not plain:
            return (f"{theirs}.weight_g", f"{theirs}.weight_v")
        return (f"{theirs}.{self.tensors.get(tensor, tensor)}",)


def _join(tensors: list[Tensor], like: Tensor) -> Tensor | None:
    """Give one tensor the shape of `like`: fold a weight norm, turn a per-channel vector into [1, C, 1], or drop or add
    an axis of 1, which codebooks have for heads."""
    if len(tensors) == 2:
        magnitude, direction = tensors
        fits = direction.shape == like.shape and magnitude.shape == (len(like), *[1] * (like.ndim - 1))
        return fold_weight_norm(direction, magnitude) if fits else None
    (tensor,) = tensors
    if tensor.ndim == 1 and like.shape == (1, len(tensor), 1):
        return tensor.reshape(like.shape)
    if tensor.shape == (1, *like.shape) or (1, *tensor.shape) == like.shape:
        return tensor.reshape(like.shape)
    return tensor if tensor.shape == like.shape else None


def fold_weight_norm(
    direction: Float32[Tensor, "O ..."], magnitude: Float32[Tensor, "O ..."]
) -> Float32[Tensor, "O ..."]:
    """Scale each row of `direction` to its length in `magnitude`, to the same bits on every processor.

    The fingerprint of a codec is a hash of the result. Sums of floats depend on their order, and so on how many a
    processor adds at once: squares are therefore summed as integers, of as many bits as fit. All else is rounded as
    IEEE 754 says, which is the same everywhere.
    """
    squares = direction.flatten(1).numpy().astype(np.float64) ** 2
    _, exponents = np.frexp(squares.max(axis=1, keepdims=True))
    shifts = 62 - (squares.shape[1] - 1).bit_length() - exponents
    sums = np.rint(np.ldexp(squares, shifts)).astype(np.int64).sum(axis=1, keepdims=True)
    lengths = np.sqrt(np.ldexp(sums.astype(np.float64), -shifts)).reshape(magnitude.shape)
    scale = magnitude.double() / torch.from_numpy(lengths)
    return (direction.double() * scale).float()


def _mismatch(
    key: str, sources: Mapping[str, tuple[str, ...]], own: Mapping[str, Tensor], state: Mapping[str, Tensor]
) -> str:
    found = " and ".join(f"{name} {list(state[name].shape)}" for name in sources[key])
    return f"{found} instead of {list(own[key].shape)}"


def unwrap(state: Mapping[str, Tensor], where: str) -> Mapping[str, Tensor]:
    """Take the autoencoder out of a checkpoint that holds nothing else; refuse a training checkpoint by name."""
    training = sorted({key.partition(".")[0] for key in state if key.startswith(_TRAINING)})
    if training:
        raise ConfigError(
            f"{where}: expected one unwrapped model, found a training checkpoint with {', '.join(training)}; "
            "export the model from it with stable-audio-tools' unwrap_model.py"
        )
    prefix = "autoencoder."
    if state and all(key.startswith(prefix) for key in state):
        return {key.removeprefix(prefix): tensor for key, tensor in state.items()}
    return state


def oobleck_layout(num_encoder_blocks: int, num_decoder_blocks: int) -> Layout:
    """Lay out an oobleck encoder and decoder."""
    modules = dict(_encoder_modules("encoder.layers", "layers", num_encoder_blocks))
    modules |= dict(_decoder_modules("decoder.layers", "layers", num_decoder_blocks))
    return Layout(modules, folds_weight_norm=False)


def dac_layout(num_encoder_blocks: int, num_decoder_blocks: int, num_codebooks: int) -> Layout:
    """Lay out a DAC's encoder with its projection, quantizers and decoder."""
    modules = dict(_encoder_modules("encoder.encoder.block", "block", num_encoder_blocks))
    modules |= dict(_decoder_modules("decoder.decoder.model", "block", num_decoder_blocks))
    modules["projection"] = "encoder.proj_out"
    for place in range(num_codebooks):
        for module in ("in_proj", "out_proj", "codebook"):
            modules[f"quantizer.quantizers.{place}.{module}"] = f"bottleneck.quantizer.quantizers.{place}.{module}"
    return Layout(modules, folds_weight_norm=True)


def seanet_layout(network: nn.Module) -> Layout:
    """Lay out an EnCodec of transformers: its convolutions, LSTMs and codebooks."""
    from transformers.models.encodec.modeling_encodec import EncodecConv1d, EncodecConvTranspose1d

    modules = {}
    for name, module in network.named_modules():
        theirs = name.replace(".layers.", ".model.", 1)
        if isinstance(module, nn.LSTM):
            modules[name] = theirs
        elif isinstance(module, EncodecConv1d | EncodecConvTranspose1d):
            inner = f"{theirs}.convtr.convtr" if isinstance(module, EncodecConvTranspose1d) else f"{theirs}.conv.conv"
            modules[f"{name}.conv"] = modules[f"{name}.conv.parametrizations.weight"] = inner
        elif name.startswith("quantizer.") and name.endswith(".codebook"):
            modules[name] = f"bottleneck.{name.removesuffix('codebook')}_codebook"
    norms = {"original0": "weight_g", "original1": "weight_v", "inited": "initted"}
    return Layout(modules, folds_weight_norm=False, tensors=norms)


def _encoder_modules(top: str, inner: str, num_blocks: int) -> Iterator[tuple[str, str]]:
    yield "encoder.conv1", f"{top}.0"
    for place in range(num_blocks):
        ours, theirs = f"encoder.block.{place}", f"{top}.{place + 1}.{inner}"
        for unit in range(3):
            yield from _residual_modules(f"{ours}.res_unit{unit + 1}", f"{theirs}.{unit}.{inner}")
        yield f"{ours}.snake1", f"{theirs}.3"
        yield f"{ours}.conv1", f"{theirs}.4"
    yield "encoder.snake1", f"{top}.{num_blocks + 1}"
    yield "encoder.conv2", f"{top}.{num_blocks + 2}"


def _decoder_modules(top: str, inner: str, num_blocks: int) -> Iterator[tuple[str, str]]:
    yield "decoder.conv1", f"{top}.0"
    for place in range(num_blocks):
        ours, theirs = f"decoder.block.{place}", f"{top}.{place + 1}.{inner}"
        yield f"{ours}.snake1", f"{theirs}.0"
        yield f"{ours}.conv_t1", f"{theirs}.1"
        for unit in range(3):
            yield from _residual_modules(f"{ours}.res_unit{unit + 1}", f"{theirs}.{unit + 2}.{inner}")
    yield "decoder.snake1", f"{top}.{num_blocks + 1}"
    yield "decoder.conv2", f"{top}.{num_blocks + 2}"


def _residual_modules(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    for place, module in enumerate(("snake1", "conv1", "snake2", "conv2")):
        yield f"{ours}.{module}", f"{theirs}.{place}"
