"""How fast do networks for codecs learn on one core? The same excerpts, losses and CPU time, in turn.

    solfa encode MUSIC music.solfa --codec mulaw:bits=16,sample_rate=24000
    python benchmarks/codec_learning.py music.solfa --seconds 80
    python benchmarks/codec_learning.py music.solfa --seconds 80 --codebooks 8 --networks spectral,direct
    python benchmarks/codec_learning.py music.solfa --seconds 240 --codebooks 8 --networks direct,wide,deep,decoder,half

With --codebooks, the latents are quantized, as they are in the built-in codec; without, what is compared are the
networks alone. Printed after each quarter of the time are updates, mel loss, mel distance and SI-SDR on excerpts of the
last tenth of the clips, which are not trained on.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import solfa
from solfa.models import CodecModel, CodecModelConfig, Rvq
from solfa.models.codec.config import NetworkConfig
from solfa.nn import SeanetConfig, SpectralConfig
from solfa.ops import MelLoss, mulaw_decode, si_sdr
from solfa.ops.audio_metrics import batch_mel_distance_db

RATE, LENGTH, BATCH = 24_000, 24_000, 8
LEARNING_RATE, WARM_UP = 8e-4, 50
SPECTRAL = SpectralConfig(dim=64, encoder_width=240, encoder_blocks=4, decoder_width=288, decoder_blocks=6)
DIRECT = SPECTRAL.model_copy(update={"direct_coefficients": 48})


def _resized(encoder_width: int, encoder_blocks: int, decoder_width: int, decoder_blocks: int) -> SpectralConfig:
    sizes = {"encoder_width": encoder_width, "encoder_blocks": encoder_blocks}
    sizes |= {"decoder_width": decoder_width, "decoder_blocks": decoder_blocks}
    return DIRECT.model_copy(update=sizes)


NETWORKS: dict[str, NetworkConfig] = {
    "seanet": SeanetConfig(num_filters=16, causal=False, lstm_layers=0),
    "spectral": SPECTRAL,
    "direct": DIRECT,
    # The built-in codec's size divided otherwise: fewer blocks that are wider, more that are narrower, most of it for
    # the decoder. And everything two thirds as wide, which is half the size.
    "wide": _resized(328, 2, 392, 3),
    "deep": _resized(176, 8, 208, 12),
    "decoder": _resized(176, 4, 320, 6),
    "half": _resized(160, 4, 192, 6),
}


class Network(nn.Module):
    """An encoder and a decoder, with or without codebooks between them."""

    def __init__(self, config: NetworkConfig, num_codebooks: int) -> None:
        super().__init__()
        # Few updates on small batches: what is never chosen has to be replaced soon.
        bottleneck = Rvq(num_codebooks=max(1, num_codebooks), dropout=0.5, decay=0.98, expire_below=0.2)
        self.codec = CodecModel(CodecModelConfig(sample_rate=RATE, network=config, bottleneck=bottleneck))
        self.is_quantized = num_codebooks > 0

    def forward(self, audio: Tensor) -> tuple[Tensor, Tensor]:
        """Return the decoded audio and the loss of quantizing it."""
        if self.is_quantized:
            passed = self.codec(audio)
            return passed.audio, passed.bottleneck.loss
        return self.codec.decoder(self.codec.encoder(audio)), audio.new_zeros(())


def excerpts(clips: Sequence[Any], generator: np.random.Generator, number: int) -> Tensor:
    chosen: list[Tensor] = []
    while len(chosen) < number:
        array = clips[int(generator.integers(len(clips)))].array
        if len(array) >= LENGTH:
            start = int(generator.integers(len(array) - LENGTH + 1))
            chosen.append(torch.from_numpy(array[start : start + LENGTH].astype(np.int64)))
    return mulaw_decode(torch.stack(chosen), 65_536).transpose(1, 2)


def learn(config: NetworkConfig, clips: Sequence[Any], seconds: float, num_codebooks: int) -> list[str]:
    """Train for so many CPU seconds and describe the state after each quarter."""
    torch.manual_seed(0)
    split = len(clips) * 9 // 10
    training = [clips[index] for index in range(split)]
    test = excerpts([clips[index] for index in range(split, len(clips))], np.random.default_rng(1), 16)
    generator = np.random.default_rng(0)
    network = Network(config, num_codebooks)
    mel = MelLoss(log_order=1).build(RATE)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, betas=(0.8, 0.99))
    states: list[str] = []
    updates, start = 0, time.process_time()
    while len(states) < 4:
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (updates + 1) / WARM_UP)
        audio = excerpts(training, generator, BATCH)
        decoded, quantizing = network(audio)
        loss = mel(decoded, audio) + (decoded - audio).abs().mean() / (audio.abs().mean() + 1e-3) + quantizing
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        updates += 1
        if time.process_time() - start > seconds * (len(states) + 1) / 4:
            network.eval()
            with torch.no_grad():
                decoded, _ = network(test)
            network.train()
            distance, ratio = batch_mel_distance_db(decoded, test, RATE).mean(), si_sdr(decoded, test).mean()
            states.append(f"{updates:5d} {mel(decoded, test):9.3f} {distance:9.2f} {ratio:8.2f}")
    return states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--seconds", type=float, default=80.0)
    parser.add_argument("--codebooks", type=int, default=0, help="of 1024 entries; 0 quantizes nothing")
    parser.add_argument("--networks", default=",".join(NETWORKS), help=f"some of {', '.join(NETWORKS)}")
    arguments = parser.parse_args()
    names = arguments.networks.split(",")
    if unknown := [name for name in names if name not in NETWORKS]:
        parser.error(f"--networks: expected some of {', '.join(NETWORKS)}, found {unknown[0]!r}")
    torch.set_num_threads(1)
    clips = solfa.open_dataset(arguments.dataset)
    print("updates  mel loss  mel (dB)  SI-SDR")
    for name in names:
        for state in learn(NETWORKS[name], clips, arguments.seconds, arguments.codebooks):
            print(f"{state}   {name}", flush=True)


if __name__ == "__main__":
    main()
