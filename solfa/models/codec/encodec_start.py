"""Load transformers' EnCodec checkpoints as codec networks, to train them further.

    ours                               theirs
    encoder.*, decoder.*               the same names (older files: weight_g, weight_v)
    bottleneck.quantizer.codebooks     quantizer.layers.k.codebook.embed, stacked
    bottleneck.quantizer.counts        quantizer.layers.k.codebook.cluster_size

`embed_avg` is not read: it is the product of the two. Models that normalise loudness and work in chunks (48 kHz) can be
used as codecs, but not trained here.
"""

import math
from pathlib import Path
from typing import Literal

import torch
from pydantic import ConfigDict, Field
from torch import Tensor

from solfa.config import Config, parse_config
from solfa.errors import ConfigError
from solfa.models.codec.bottlenecks import Rvq
from solfa.models.codec.codec_files import build_apart, fill
from solfa.models.codec.config import CodecModelConfig
from solfa.models.codec.network import CodecModel
from solfa.nn.seanet import SeanetConfig
from solfa.pretrained.account import check_tensors
from solfa.pretrained.directory import read_config
from solfa.pretrained.hub import local_directory
from solfa.pretrained.tensors import TensorFiles

_QUANTIZER = "bottleneck.quantizer."
_CODEBOOKS = {f"{_QUANTIZER}codebooks": "embed", f"{_QUANTIZER}counts": "cluster_size"}
_INITIALIZED = f"{_QUANTIZER}initialized"
_OLDER = {"weight_g": "parametrizations.weight.original0", "weight_v": "parametrizations.weight.original1"}


class EncodecJson(Config):
    """The fields of an `encodec` config that define the architecture, with transformers' defaults."""

    model_config = ConfigDict(extra="ignore")

    model_type: Literal["encodec"]
    target_bandwidths: tuple[float, ...] = Field(default=(1.5, 3.0, 6.0, 12.0, 24.0), min_length=1)
    sampling_rate: int = 24_000
    audio_channels: int = 1
    normalize: bool = False
    chunk_length_s: float | None = None
    hidden_size: int = 128
    num_filters: int = 32
    num_residual_layers: int = 1
    upsampling_ratios: tuple[int, ...] = (8, 5, 4, 2)
    norm_type: str = "weight_norm"
    kernel_size: int = 7
    last_kernel_size: int = 7
    residual_kernel_size: int = 3
    dilation_growth_rate: int = 2
    use_causal_conv: bool = True
    pad_mode: Literal["reflect", "constant"] = "reflect"
    compress: int = 2
    num_lstm_layers: int = Field(default=2, ge=1)
    trim_right_ratio: float = 1.0
    codebook_size: int = 1024
    codebook_dim: int | None = None
    use_conv_shortcut: bool = True

    def check(self, where: str) -> None:
        """Refuse settings that these networks do not implement."""
        unsupported = {
            "normalize": (self.normalize, False),
            "chunk_length_s": (self.chunk_length_s, None),
            "norm_type": (self.norm_type, "weight_norm"),
            "codebook_dim": (self.codebook_dim or self.hidden_size, self.hidden_size),
        }
        for name, (found, wanted) in unsupported.items():
            if found != wanted:
                raise ConfigError(
                    f"{where}: training an EnCodec needs {name} {wanted}, found {found}; "
                    "start from the 24 kHz or the 32 kHz model"
                )

    @property
    def num_codebooks(self) -> int:
        """The number for the largest bandwidth, with frames and bits rounded up as in transformers."""
        bits_per_code = math.ceil(math.log2(self.codebook_size))
        frame_rate = math.ceil(self.sampling_rate / self.seanet.hop_length)
        return int(1000 * self.target_bandwidths[-1] // (frame_rate * bits_per_code))

    @property
    def seanet(self) -> SeanetConfig:
        return SeanetConfig(
            num_filters=self.num_filters,
            dim=self.hidden_size,
            strides=self.upsampling_ratios,
            kernel_size=self.kernel_size,
            last_kernel_size=self.last_kernel_size,
            residual_kernel_size=self.residual_kernel_size,
            num_residual_layers=self.num_residual_layers,
            dilation_base=self.dilation_growth_rate,
            compress=self.compress,
            conv_shortcut=self.use_conv_shortcut,
            causal=self.use_causal_conv,
            pad_mode="reflect" if self.pad_mode == "reflect" else "zero",
            trim_right_ratio=self.trim_right_ratio,
            lstm_layers=self.num_lstm_layers,
        )


def load_encodec(location: str | Path, *, revision: str | None = None, rvq: Rvq | None = None) -> CodecModel:
    """Load a directory or a Hub id in float32 and eval mode, every tensor accounted for.

    `rvq` says how to train the codebooks further, and may ask for only the first few of them.
    """
    directory = local_directory(location, revision)
    where = f"EnCodec {location}"
    found = parse_config(EncodecJson, read_config(directory), f"{where}: config.json")
    found.check(where)
    bottleneck = _fitting(rvq, found, where)
    config = CodecModelConfig(
        sample_rate=found.sampling_rate,
        num_channels=found.audio_channels,
        network=found.seanet,
        bottleneck=bottleneck,
    )
    model = build_apart(config)
    files = TensorFiles(directory)
    _account(model, files, found.num_codebooks, where)

    def read(name: str) -> Tensor:
        if name == _INITIALIZED:
            return torch.tensor(True)
        if name in _CODEBOOKS:
            parts = [_codebook(index, _CODEBOOKS[name]) for index in range(bottleneck.num_codebooks)]
            return torch.stack([files.read(part) for part in parts])
        return files.read(_spelled(name, files.names))

    return fill(model, read)


def _fitting(rvq: Rvq | None, found: EncodecJson, where: str) -> Rvq:
    if rvq is None:
        return Rvq(num_codebooks=found.num_codebooks, codebook_size=found.codebook_size)
    if (rvq.codebook_size, rvq.codebook_dim) != (found.codebook_size, None) or rvq.num_codebooks > found.num_codebooks:
        raise ConfigError(
            f"{where}: expected a bottleneck of up to {found.num_codebooks} codebooks of {found.codebook_size} without "
            f"codebook_dim, found {rvq.num_codebooks} of {rvq.codebook_size} with codebook_dim {rvq.codebook_dim}"
        )
    return rvq


def _account(model: CodecModel, files: TensorFiles, num_codebooks: int, where: str) -> None:
    state = model.state_dict()
    wanted = {
        _spelled(name, files.names): tuple(tensor.shape)
        for name, tensor in state.items()
        if not name.startswith(_QUANTIZER)
    }
    for name, part in _CODEBOOKS.items():
        shape = tuple(state[name].shape[1:])
        wanted |= {_codebook(index, part): shape for index in range(num_codebooks)}
    known = {_codebook(index, part) for index in range(num_codebooks) for part in ("embed_avg", "inited")}
    check_tensors(files, wanted, known, where)


def _codebook(index: int, part: str) -> str:
    return f"quantizer.layers.{index}.codebook.{part}"


def _spelled(name: str, names: set[str]) -> str:
    """Return the name that the file uses: older files name weight norms differently."""
    for older, newer in _OLDER.items():
        if name.endswith(newer) and name not in names:
            written = name.removesuffix(newer) + older
            return written if written in names else name
    return name
