"""What the losses of a codec cost in training, beside the same losses as one would write them in PyTorch.

    python benchmarks/codec_losses.py [--clips 10] [--samples 19200] [--rounds 5] [--bf16]

Two parts of an update, on the same random audio with one thread, each forward and backward to the decoded audio:

    mel             log mel powers with six windows; against torch.stft, the square of its magnitude, mel filters
    discriminators  three STFT discriminators of 16 filters judge the decoded and the original audio, the codec's losses
                    are fooling them and matching their maps; against `(real - fake).abs().mean()` for the maps, whose
                    gradient lies in memory otherwise than the maps do

The sides take turns in one process after one that is not counted; the clock is CPU time, and the figures are medians.
That both sides mean the same is shown by how far their gradients are apart. With --bf16, the discriminators run under
autocast, as `precision=bf16-mixed` has them.
"""

import argparse
import time
from collections.abc import Callable
from contextlib import nullcontext
from statistics import median

import torch
from ratios import Ratio, add_option, write_ratios
from torch import Tensor

from solfa.nn import StftDiscriminatorConfig
from solfa.nn.discriminators import frozen
from solfa.ops import Hinge, MelLoss, feature_matching_loss
from solfa.ops.audio_losses import FLOOR
from solfa.ops.frame_spectra import unit_hann
from solfa.ops.mel_spectrogram import mel_filters

RATE, BANDS = 24_000, 64
WINDOWS = MelLoss().windows
DISCRIMINATORS = StftDiscriminatorConfig(
    windows=(2048, 1024, 512), num_filters=16, overlap=2, first_stride=2, compression=0.3
)

Losses = Callable[[Tensor, Tensor], list[Tensor]]
Maps = list[list[Tensor]]


def plain_mel(decoded: Tensor, audio: Tensor) -> list[Tensor]:
    total = torch.zeros(())
    for window in WINDOWS:
        filters = torch.from_numpy(mel_filters(BANDS, window, RATE, RATE / 2, 0.0)).float()
        one, other = (filters @ _plain_power(sound, window) for sound in (decoded, audio))
        total = total + (one - other).abs().mean() + ((FLOOR + one).log10() - (FLOOR + other).log10()).abs().mean()
    return [total / len(WINDOWS)]


def _plain_power(sound: Tensor, window: int) -> Tensor:
    spectrum = torch.stft(
        sound[:, 0],
        window,
        hop_length=window // 4,
        window=unit_hann(window, sound.dtype, sound.device),
        pad_mode="constant",
        return_complex=True,
    )
    return spectrum.abs().square()


def plain_matching(real: Maps, fake: Maps) -> Tensor:
    ratios = [
        (one - other).abs().mean() / one.abs().mean()
        for ones, others in zip(real, fake, strict=True)
        for one, other in zip(ones, others, strict=True)
    ]
    return torch.stack(ratios).mean()


def judged(matching: Callable[[Maps, Maps], Tensor], bf16: bool) -> Losses:
    """Losses against discriminators; each call builds the same ones."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        discriminators = DISCRIMINATORS.build(1)

    def losses(decoded: Tensor, audio: Tensor) -> list[Tensor]:
        with torch.autocast("cpu", torch.bfloat16) if bf16 else nullcontext():
            with torch.no_grad():
                real = discriminators(audio)
            with frozen(discriminators):
                fake = discriminators(decoded)
            fooling = Hinge().generator_loss([found.logits for found in fake])
            return [fooling, matching([found.features for found in real], [found.features for found in fake])]

    return losses


def measure(losses: Losses, decoded: Tensor, audio: Tensor) -> tuple[float, Tensor]:
    """Return CPU seconds, and the gradients of all losses one after the other."""
    inputs = decoded.clone().requires_grad_()
    start = time.process_time()
    found = losses(inputs, audio)
    gradients = [
        torch.autograd.grad(loss, [inputs], retain_graph=index < len(found))[0]
        for index, loss in enumerate(found, start=1)
    ]
    return time.process_time() - start, torch.stack(gradients)


def compare(name: str, ours: Losses, plain: Losses, options: argparse.Namespace) -> Ratio:
    torch.manual_seed(0)
    audio = 0.1 * torch.randn(options.clips, 1, options.samples)
    decoded = audio + 0.03 * torch.randn_like(audio)
    (_, gradient), (_, expected) = measure(ours, decoded, audio), measure(plain, decoded, audio)
    apart = float((gradient - expected).norm() / expected.norm())
    rounds = [(measure(ours, decoded, audio)[0], measure(plain, decoded, audio)[0]) for _ in range(options.rounds)]
    our_seconds, plain_seconds = (median(side) for side in zip(*rounds, strict=True))
    print(
        f"{name}: {1000 * our_seconds:.0f} ms, plain {1000 * plain_seconds:.0f} ms, {plain_seconds / our_seconds:.2f} "
        f"times; gradients differ by {apart:.1e} of their norm"
    )
    return Ratio(f"codec losses, {name}", "plain PyTorch", plain_seconds / our_seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=10)
    parser.add_argument("--samples", type=int, default=19_200)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bf16", action="store_true", help="discriminators under autocast")
    add_option(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ours = judged(feature_matching_loss, options.bf16)
    plain = judged(plain_matching, options.bf16)
    ratios = [
        compare("mel", _ours, plain_mel, options),
        compare("discriminators", ours, plain, options),
    ]
    write_ratios(options.ratios, ratios)


def _ours(decoded: Tensor, audio: Tensor) -> list[Tensor]:
    return [MelLoss(log_order=1).build(RATE)(decoded, audio)]


if __name__ == "__main__":
    main()
