"""How fast do a SEANet and a network on spectra learn on one core? The same excerpts, losses and CPU time, in turn.

    solfa encode MUSIC music.solfa --codec mulaw:bits=16,sample_rate=24000
    python benchmarks/codec_learning.py music.solfa --seconds 80

Nothing is quantized: what is compared are the networks. Printed after each quarter of the time are updates, mel loss,
mel distance and SI-SDR on excerpts of the last tenth of the clips, which are not trained on.
"""

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import solfa
from solfa.models.codec.config import NetworkConfig
from solfa.nn import SeanetConfig, SpectralConfig
from solfa.ops import MelLoss, mulaw_decode, si_sdr
from solfa.ops.audio_metrics import mel_distance_db

RATE, LENGTH, BATCH = 24_000, 24_000, 8
LEARNING_RATE, WARM_UP = 8e-4, 50
NETWORKS: dict[str, NetworkConfig] = {
    "seanet, 16 filters": SeanetConfig(num_filters=16, causal=False, lstm_layers=0),
    "spectral": SpectralConfig(dim=48, encoder_width=256, encoder_blocks=4, decoder_width=288, decoder_blocks=6),
}


def excerpts(clips: Sequence[Any], generator: np.random.Generator, number: int) -> Tensor:
    chosen: list[Tensor] = []
    while len(chosen) < number:
        array = clips[int(generator.integers(len(clips)))].array
        if len(array) >= LENGTH:
            start = int(generator.integers(len(array) - LENGTH + 1))
            chosen.append(torch.from_numpy(array[start : start + LENGTH].astype(np.int64)))
    return mulaw_decode(torch.stack(chosen), 65_536).transpose(1, 2)


def learn(config: NetworkConfig, clips: Sequence[Any], seconds: float) -> list[str]:
    """Train for so many CPU seconds and describe the state after each quarter."""
    torch.manual_seed(0)
    split = len(clips) * 9 // 10
    training = [clips[index] for index in range(split)]
    test = excerpts([clips[index] for index in range(split, len(clips))], np.random.default_rng(1), 16)
    generator = np.random.default_rng(0)
    network = nn.Sequential(config.build_encoder(1), config.build_decoder(1))
    mel = MelLoss(log_order=1).build(RATE)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, betas=(0.8, 0.99))
    states: list[str] = []
    updates, start = 0, time.process_time()
    while len(states) < 4:
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, (updates + 1) / WARM_UP)
        audio = excerpts(training, generator, BATCH)
        decoded = network(audio)
        loss = mel(decoded, audio) + (decoded - audio).abs().mean() / (audio.abs().mean() + 1e-3)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        updates += 1
        if time.process_time() - start > seconds * (len(states) + 1) / 4:
            with torch.no_grad():
                decoded = network(test)
            distance, ratio = mel_distance_db(decoded, test, RATE).mean(), si_sdr(decoded, test).mean()
            states.append(f"{updates:5d} {mel(decoded, test):9.3f} {distance:9.2f} {ratio:8.2f}")
    return states


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--seconds", type=float, default=80.0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    clips = solfa.open_dataset(arguments.dataset)
    print("updates  mel loss  mel (dB)  SI-SDR")
    for name, config in NETWORKS.items():
        for state in learn(config, clips, arguments.seconds):
            print(f"{state}   {name}")


if __name__ == "__main__":
    main()
