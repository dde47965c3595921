"""`musicnn`: a tagger of music (Pons & Serra 2019), with the weights of its package and without TensorFlow.

    log-mel [187, 96] ──► filters as tall as timbres, as long as rhythms ──► 3 layers over time ──► max | mean over time
                                                           ──► 200 numbers (the embedding) ──► log-odds of 50 tags

A window is 187 frames of 256 samples, 2.992 s. The network hears 16 kHz mono.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from solfa.codecs.embedders.protocol import in_pieces
from solfa.codecs.inference import exact_inference, set_for_inference
from solfa.errors import ConfigError
from solfa.files.digest import value_sha256
from solfa.pretrained.account import load_exactly
from solfa.pretrained.tensorflow import read_tensorflow
from solfa.pretrained.tensors import weights_sha256

SAMPLE_RATE = 16_000
FRAME_HOP = 256
FFT_SIZE = 512
NUM_BANDS = 96
WINDOW_FRAMES = 187
WIDTH = 200
_TIMBRES, _RHYTHMS, _LAYER = 204, 51, 64
_NORM_EPSILON = 1e-3
_CHECKPOINT = "MTT_musicnn"

TAGS = (
    *("guitar", "classical", "slow", "techno", "strings", "drums", "electronic", "rock", "fast", "piano", "ambient"),
    *("beat", "violin", "vocal", "synth", "female", "indian", "opera", "male", "singing", "vocals", "no vocals"),
    *("harpsichord", "loud", "quiet", "flute", "woman", "male vocal", "no vocal", "pop", "soft", "sitar", "solo"),
    *("man", "classic", "choir", "voice", "new age", "dance", "male voice", "female vocal", "beats", "harp", "cello"),
    *("no voice", "weird", "country", "metal", "female voice", "choral"),
)
"""The 50 tags of MagnaTagATune that it was trained on, in the order of its outputs."""


class _Filtered(nn.Module):
    """A convolution over time and frequency, ReLU, normalisation, and the maximum over frequency."""

    def __init__(self, filters: int, frames: int, bands: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, filters, (frames, bands))
        self.norm = nn.BatchNorm2d(filters, eps=_NORM_EPSILON)
        # As many frames come out as go in; of an even number, the odd one is added at the end.
        self._padding = (0, 0, (frames - 1) // 2, frames // 2)

    def forward(self, picture: Float[Tensor, "B 1 T F"]) -> Float[Tensor, "B Y T"]:
        heard: Tensor = self.norm(F.relu(self.conv(F.pad(picture, self._padding))))
        return heard.amax(dim=3)


class _Layer(nn.Module):
    """A convolution over time, ReLU and normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, _LAYER, 7, padding=3)
        self.norm = nn.BatchNorm1d(_LAYER, eps=_NORM_EPSILON)

    def forward(self, frames: Float[Tensor, "B Y T"]) -> Float[Tensor, "B L T"]:
        layer: Tensor = self.norm(F.relu(self.conv(frames)))
        return layer


class MusicnnNetwork(nn.Module):
    """The network, from log-mel windows to an embedding and log-odds."""

    def __init__(self) -> None:
        super().__init__()
        timbres = [_Filtered(_TIMBRES, 7, int(share * NUM_BANDS)) for share in (0.4, 0.7)]
        rhythms = [_Filtered(_RHYTHMS, frames, 1) for frames in (128, 64, 32)]
        first = 2 * _TIMBRES + 3 * _RHYTHMS
        self.norm = nn.BatchNorm2d(1, eps=_NORM_EPSILON)
        self.front = nn.ModuleList([*timbres, *rhythms])
        self.middle = nn.ModuleList([_Layer(first), _Layer(_LAYER), _Layer(_LAYER)])
        pooled = 2 * (first + 3 * _LAYER)
        self.pool_norm = nn.BatchNorm1d(pooled, eps=_NORM_EPSILON)
        self.dense = nn.Linear(pooled, WIDTH)
        self.dense_norm = nn.BatchNorm1d(WIDTH, eps=_NORM_EPSILON)
        self.head = nn.Linear(WIDTH, len(TAGS))

    def forward(self, windows: Float[Tensor, "B T F"]) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B V"]]:
        picture = self.norm(windows[:, None])
        front = torch.cat([part(picture) for part in self.front], dim=1)
        first = self.middle[0](front)
        second = self.middle[1](first) + first
        third = self.middle[2](second) + second
        frames = torch.cat([front, first, second, third], dim=1)
        pooled = torch.stack([frames.amax(dim=2), frames.mean(dim=2)], dim=2).flatten(1)
        embedded = self.dense_norm(F.relu(self.dense(self.pool_norm(pooled))))
        return embedded, self.head(embedded)


def log_mel(audio: Float[Tensor, " N"]) -> Float[Tensor, "T F"]:
    """Return log10(1 + 10,000 x) of the power in 96 mel bands, as the network was trained on."""
    window = torch.hann_window(FFT_SIZE, dtype=audio.dtype, device=audio.device)
    half = FFT_SIZE // 2
    # Reflected at the ends; a clip too short for that has silence there.
    padded = F.pad(audio[None], (half, half), mode="reflect" if len(audio) > half else "constant")[0]
    spectrum = torch.stft(padded, FFT_SIZE, FRAME_HOP, window=window, center=False, return_complex=True)
    power = spectrum.real.square() + spectrum.imag.square()
    filters = torch.from_numpy(_slaney_filters()).to(power)
    return torch.log10(1.0 + 10_000.0 * (filters @ power)).T


def _slaney_filters() -> NDArray[Any]:
    """Return triangles of unit area on Slaney's scale, linear below 1 kHz and logarithmic above."""
    step = np.log(6.4) / 27.0

    def to_hz(mel: NDArray[Any]) -> NDArray[Any]:
        return np.where(mel < 15.0, mel * 200.0 / 3.0, 1000.0 * np.exp(step * (np.maximum(mel, 15.0) - 15.0)))

    highest = 15.0 + np.log(SAMPLE_RATE / 2 / 1000.0) / step
    edges = to_hz(np.linspace(0.0, highest, NUM_BANDS + 2))
    bins = np.linspace(0.0, SAMPLE_RATE / 2, FFT_SIZE // 2 + 1)
    rise = (bins - edges[:-2, None]) / np.diff(edges)[:-1, None]
    fall = (edges[2:, None] - bins) / np.diff(edges)[1:, None]
    return np.asarray(np.maximum(0.0, np.minimum(rise, fall)) * (2.0 / (edges[2:] - edges[:-2]))[:, None])


@final
class MusicnnEmbedder:
    """The tagger behind the embedder protocol."""

    name = "musicnn"
    sample_rate, hop_length, width, tags = SAMPLE_RATE, WINDOW_FRAMES * FRAME_HOP, WIDTH, TAGS

    def __init__(self, network: MusicnnNetwork, device: str = "cpu") -> None:
        self.description: Mapping[str, Any] = {
            "family": self.name,
            "weights_sha256": weights_sha256(network.state_dict()),
        }
        self.fingerprint = value_sha256(self.description)
        set_for_inference(network, "fp32", device)
        self.network, self._device = network, device

    @classmethod
    def load(cls, device: str = "cpu") -> "MusicnnEmbedder":
        """Read the weights from the package of that name, of which nothing is run."""
        package = find_spec("musicnn")
        if package is None or not package.submodule_search_locations:
            raise ConfigError(
                "embedder musicnn: the package that holds its weights is missing; run `pip install --no-deps musicnn` "
                "(what it depends on is an old TensorFlow, which is not needed), or choose another embedder"
            )
        folder = Path(next(iter(package.submodule_search_locations))) / _CHECKPOINT
        network = MusicnnNetwork()
        load_exactly(network, torch_state(read_tensorflow(folder)), f"embedder musicnn ({folder})")
        return cls(network, device)

    def embed(self, audio: Float[Tensor, "B N"]) -> Float[Tensor, "B T W"]:
        """Embed windows of 2.992 s: 200 numbers, then the log-odds of 50 tags."""
        with exact_inference():
            return torch.stack([self._clip(clip) for clip in audio.to(self._device, torch.float32)])

    def _clip(self, clip: Float[Tensor, " N"]) -> Float[Tensor, "T W"]:
        frames = log_mel(clip)
        if len(frames) < WINDOW_FRAMES:
            frames = frames.repeat(-(-WINDOW_FRAMES // len(frames)), 1)
        count = len(frames) // WINDOW_FRAMES
        windows = frames[: count * WINDOW_FRAMES].reshape(count, WINDOW_FRAMES, NUM_BANDS)
        return torch.cat([torch.cat(self.network(piece), dim=1) for piece in in_pieces(windows)])


def torch_state(variables: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Give TensorFlow's variables the names and layouts of the network here; what only training needs is left out."""
    norms = ["norm", *(f"front.{i}.norm" for i in range(5)), *(f"middle.{i}.norm" for i in range(3))]
    norms += ["pool_norm", "dense_norm"]
    convolutions = [*(f"front.{i}.conv" for i in range(5)), *(f"middle.{i}.conv" for i in range(3))]
    homes = {_numbered("batch_normalization", i): name for i, name in enumerate(norms)}
    homes |= {_numbered("conv2d", i): name for i, name in enumerate(convolutions)}
    homes |= {"dense": "dense", "dense_1": "head"}
    parts = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}
    parts |= {"kernel": "weight", "bias": "bias"}
    state = {f"{name}.num_batches_tracked": torch.tensor(0) for name in norms}
    for variable, values in variables.items():
        layer, _, part = variable.partition("/")
        if "Adam" in part or not part:  # an optimiser's moments, and its powers of beta
            continue
        name = f"{homes.get(layer, layer)}.{parts.get(part, part)}"
        state[name] = torch.from_numpy(np.ascontiguousarray(_turned(values, is_layer=name.startswith("middle"))))
    return state


def _numbered(name: str, number: int) -> str:
    return name if number == 0 else f"{name}_{number}"


def _turned(values: NDArray[Any], *, is_layer: bool) -> NDArray[Any]:
    if values.ndim == 4:  # frames, bands, 1, filters
        return values.transpose(3, 1, 0, 2)[..., 0] if is_layer else values.transpose(3, 2, 0, 1)
    return values.T if values.ndim == 2 else values
