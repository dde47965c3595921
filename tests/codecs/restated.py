"""The autoencoders of stable-audio-tools in plain torch modules, named as in its checkpoints.

Written from the layer order of the published architectures, independently of the code under test.
"""

import math
import warnings
from typing import Any

import torch
from torch import Tensor, nn


def normed(conv: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return nn.utils.weight_norm(conv)


class SnakeBeta(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha, self.beta = nn.Parameter(torch.randn(channels) / 4), nn.Parameter(torch.randn(channels) / 4)

    def forward(self, x: Tensor) -> Tensor:
        alpha, beta = self.alpha.exp()[None, :, None], self.beta.exp()[None, :, None]
        return x + torch.sin(alpha * x) ** 2 / (beta + 1e-9)


class Snake(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(1, channels, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.sin(self.alpha * x) ** 2 / (self.alpha + 1e-9)


class Chain(nn.Module):
    """A sequence under the attribute `container`, with a residual connection if asked."""

    def __init__(self, container: str, *layers: nn.Module, residual: bool = False) -> None:
        super().__init__()
        self.container, self.residual = container, residual
        setattr(self, container, nn.Sequential(*layers))

    def forward(self, x: Tensor) -> Tensor:
        y = getattr(self, self.container)(x)
        return x + y if self.residual else y


def units(channels: int, snake: Any, container: str) -> list[nn.Module]:
    return [
        Chain(
            container,
            snake(channels),
            normed(nn.Conv1d(channels, channels, 7, dilation=dilation, padding=3 * dilation)),
            snake(channels),
            normed(nn.Conv1d(channels, channels, 1)),
            residual=True,
        )
        for dilation in (1, 3, 9)
    ]


def down(channels: int, wider: int, stride: int, snake: Any, container: str) -> nn.Module:
    conv = normed(nn.Conv1d(channels, wider, 2 * stride, stride, padding=math.ceil(stride / 2)))
    return Chain(container, *units(channels, snake, container), snake(channels), conv)


def up(channels: int, narrower: int, stride: int, snake: Any, container: str) -> nn.Module:
    conv = normed(nn.ConvTranspose1d(channels, narrower, 2 * stride, stride, padding=math.ceil(stride / 2)))
    return Chain(container, snake(channels), conv, *units(narrower, snake, container))


def elu(channels: int) -> nn.Module:
    return nn.ELU()


class OobleckVae(nn.Module):
    def __init__(self, encoder: dict[str, Any], decoder: dict[str, Any]) -> None:
        super().__init__()
        inside, outside = (SnakeBeta if part.get("use_snake") else elu for part in (encoder, decoder))
        widths = [encoder["channels"] * multiple for multiple in (1, *encoder["c_mults"])]
        self.encoder = Chain(
            "layers",
            normed(nn.Conv1d(encoder["in_channels"], widths[0], 7, padding=3)),
            *[down(a, b, s, inside, "layers") for a, b, s in zip(widths, widths[1:], encoder["strides"], strict=False)],
            inside(widths[-1]),
            normed(nn.Conv1d(widths[-1], encoder["latent_dim"], 3, padding=1)),
        )
        widths = [decoder["channels"] * multiple for multiple in (1, *decoder["c_mults"])][::-1]
        strides = decoder["strides"][::-1]
        self.decoder = Chain(
            "layers",
            normed(nn.Conv1d(decoder["latent_dim"], widths[0], 7, padding=3)),
            *[up(a, b, s, outside, "layers") for a, b, s in zip(widths, widths[1:], strides, strict=False)],
            outside(widths[-1]),
            normed(nn.Conv1d(widths[-1], decoder["out_channels"], 7, padding=3, bias=False)),
            nn.Tanh() if decoder.get("final_tanh", True) else nn.Identity(),
        )

    def means(self, audio: Tensor) -> Tensor:
        return self.encoder(audio).chunk(2, dim=1)[0]


class Quantizer(nn.Module):
    def __init__(self, input_dim: int, codebook_size: int, codebook_dim: int) -> None:
        super().__init__()
        self.in_proj = normed(nn.Conv1d(input_dim, codebook_dim, 1))
        self.out_proj = normed(nn.Conv1d(codebook_dim, input_dim, 1))
        self.codebook = nn.Embedding(codebook_size, codebook_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        directions = nn.functional.normalize(self.in_proj(x).transpose(1, 2), dim=-1)
        cosines = directions @ nn.functional.normalize(self.codebook.weight, dim=-1).T
        codes = cosines.argmax(-1)
        return codes, self.out_proj(self.codebook(codes).transpose(1, 2))


class DacRvq(nn.Module):
    def __init__(self, encoder: dict[str, Any], decoder: dict[str, Any], quantizer: dict[str, Any]) -> None:
        super().__init__()
        widths = [encoder["d_model"] * 2**place for place in range(len(encoder["strides"]) + 1)]
        inner = Chain(
            "block",
            normed(nn.Conv1d(encoder.get("in_channels", 1), widths[0], 7, padding=3)),
            *[down(a, b, s, Snake, "block") for a, b, s in zip(widths, widths[1:], encoder["strides"], strict=False)],
            Snake(widths[-1]),
            normed(nn.Conv1d(widths[-1], widths[-1], 3, padding=1)),
        )
        self.encoder = nn.Module()
        self.encoder.encoder = inner
        if encoder.get("latent_dim") is not None:
            self.encoder.proj_out = nn.Conv1d(widths[-1], encoder["latent_dim"], 1)
        widths = [decoder["channels"] // 2**place for place in range(len(decoder["rates"]) + 1)]
        self.decoder = nn.Module()
        self.decoder.decoder = Chain(
            "model",
            normed(nn.Conv1d(decoder["latent_dim"], widths[0], 7, padding=3)),
            *[up(a, b, s, Snake, "block") for a, b, s in zip(widths, widths[1:], decoder["rates"], strict=False)],
            Snake(widths[-1]),
            normed(nn.Conv1d(widths[-1], decoder.get("out_channels", 1), 7, padding=3)),
            nn.Tanh(),
        )
        if not quantizer:  # a bottleneck without weights
            return
        self.bottleneck = nn.Module()
        self.bottleneck.quantizer = nn.Module()
        self.bottleneck.quantizer.quantizers = nn.ModuleList(
            Quantizer(quantizer["input_dim"], quantizer["codebook_size"], quantizer["codebook_dim"])
            for _ in range(quantizer["n_codebooks"])
        )

    def latents(self, audio: Tensor) -> Tensor:
        latents = self.encoder.encoder(audio)
        return self.encoder.proj_out(latents) if hasattr(self.encoder, "proj_out") else latents

    def codes(self, audio: Tensor) -> Tensor:
        residual = self.latents(audio)
        found = []
        for quantizer in self.bottleneck.quantizer.quantizers:
            codes, quantized = quantizer(residual)
            residual = residual - quantized
            found.append(codes)
        return torch.stack(found, dim=1)

    def decode(self, codes: Tensor) -> Tensor:
        quantizers = self.bottleneck.quantizer.quantizers
        parts = [q.out_proj(q.codebook(codes[:, place]).transpose(1, 2)) for place, q in enumerate(quantizers)]
        return self.decoder.decoder(torch.stack(parts).sum(0))


class SeanetConv(nn.Module):
    """A convolution that pads by reflection on both sides, and on the right up to a whole stride."""

    def __init__(self, channels: int, wider: int, kernel: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv = nn.Module()
        self.conv.conv = normed(nn.Conv1d(channels, wider, kernel, stride, dilation=dilation))
        self.reach, self.stride = (kernel - 1) * dilation + 1 - stride, stride

    def forward(self, x: Tensor) -> Tensor:
        right = self.reach // 2
        missing = -x.shape[-1] % self.stride
        return self.conv.conv(nn.functional.pad(x, (self.reach - right, right + missing), mode="reflect"))


class SeanetTransposed(nn.Module):
    """A transposed convolution that trims both sides."""

    def __init__(self, channels: int, narrower: int, stride: int) -> None:
        super().__init__()
        self.convtr = nn.Module()
        self.convtr.convtr = normed(nn.ConvTranspose1d(channels, narrower, 2 * stride, stride))
        self.stride = stride

    def forward(self, x: Tensor) -> Tensor:
        right = self.stride // 2
        out = self.convtr.convtr(x)
        return out[..., self.stride - right : out.shape[-1] - right]


class SeanetLstm(nn.Module):
    def __init__(self, channels: int, num_layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(channels, channels, num_layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.lstm(x.permute(2, 0, 1))[0].permute(1, 2, 0)


class SeanetBlock(nn.Module):
    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        narrow = SeanetConv(channels, channels // 2, 3, dilation=dilation)
        self.block = nn.Sequential(nn.ELU(), narrow, nn.ELU(), SeanetConv(channels // 2, channels, 1))
        self.shortcut = SeanetConv(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.block(x)


class SeanetRvq(nn.Module):
    """Both networks take their ratios from the first layer on."""

    def __init__(self, encoder: dict[str, Any], decoder: dict[str, Any], quantizer: dict[str, Any]) -> None:
        from vector_quantize_pytorch import ResidualVQ

        super().__init__()
        width, dim = encoder["n_filters"], encoder["dimension"]
        layers: list[nn.Module] = [SeanetConv(encoder["channels"], width, 7)]
        for ratio in encoder["ratios"]:
            layers += [SeanetBlock(width, 2**place) for place in range(encoder["n_residual_layers"])]
            layers += [nn.ELU(), SeanetConv(width, 2 * width, 2 * ratio, ratio)]
            width *= 2
        layers += [SeanetLstm(width, encoder["lstm"]), nn.ELU(), SeanetConv(width, dim, 7)]
        self.encoder = Chain("model", *layers)
        width = decoder["n_filters"] * 2 ** len(decoder["ratios"])
        layers = [SeanetConv(dim, width, 7), SeanetLstm(width, decoder["lstm"])]
        for ratio in decoder["ratios"]:
            layers += [nn.ELU(), SeanetTransposed(width, width // 2, ratio)]
            width //= 2
            layers += [SeanetBlock(width, 2**place) for place in range(decoder["n_residual_layers"])]
        self.decoder = Chain("model", *layers, nn.ELU(), SeanetConv(width, decoder["channels"], 7))
        self.bottleneck = nn.Module()
        self.bottleneck.quantizer = ResidualVQ(**quantizer)

    def codes(self, audio: Tensor) -> Tensor:
        return self.bottleneck.quantizer(self.encoder(audio).transpose(1, 2))[1]

    def decode(self, codes: Tensor) -> Tensor:
        return self.decoder(self.bottleneck.quantizer.get_output_from_indices(codes).transpose(1, 2))
