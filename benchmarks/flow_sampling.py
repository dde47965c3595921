"""How long drawing a clip takes: Solfa's sampler beside `StableAudioPipeline`, with the same weights.

    python benchmarks/flow_sampling.py [--frames 128] [--dim 256] [--layers 6] [--rounds 3] [--steps 10]

Both draw one clip with guidance up to its latents, with DPM++ of second order and as many steps, in turn, in float32
with one thread; CPU time, medians. The network is that of Stable Audio Open with random weights.
"""

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from diffusers import (
    AutoencoderOobleck,
    EDMDPMSolverMultistepScheduler,
    StableAudioDiTModel,
    StableAudioPipeline,
    StableAudioProjectionModel,
)

from solfa.models import Conditions, ConditionsConfig, FlowSampling, StableAudioOpenConfig, build_flow, draw_latents

CHANNELS, COND, TOKENS, HEAD, GUIDANCE, HOP, RATE = 64, 64, 16, 64, 3.0, 2048, 44_100


def drawers(options: argparse.Namespace) -> dict[str, Callable[[], None]]:
    """Build both, with the same transformer."""
    config = StableAudioOpenConfig(
        kind="stable_audio_open", dim=options.dim, num_layers=options.layers, num_heads=options.dim // HEAD,
        num_kv_heads=1, cond_dim=COND,
    )  # fmt: skip
    ours: Any = build_flow(config, ConditionsConfig(), CHANNELS)
    theirs: Any = StableAudioDiTModel(
        in_channels=CHANNELS, out_channels=CHANNELS, num_layers=options.layers, attention_head_dim=HEAD,
        num_attention_heads=options.dim // HEAD, num_key_value_attention_heads=1, cross_attention_dim=COND,
        cross_attention_input_dim=COND, global_states_input_dim=2 * COND, sample_size=options.frames,
    )  # fmt: skip
    theirs.load_state_dict(ours.dit.dit.state_dict())
    vae = AutoencoderOobleck(
        encoder_hidden_size=4, channel_multiples=[1] * 5, decoder_channels=4, decoder_input_channels=CHANNELS
    )
    numbers = StableAudioProjectionModel(COND, COND, 0, 512)
    scheduler = EDMDPMSolverMultistepScheduler(sigma_max=80)
    pipe: Any = StableAudioPipeline(vae, None, numbers, None, theirs, scheduler)
    pipe.set_progress_bar_config(disable=True)
    text = torch.randn(1, TOKENS, COND, generator=torch.Generator().manual_seed(0))
    seconds = 0.9 * options.frames * HOP / RATE
    settings = FlowSampling(sampler="dpm++", steps=options.steps, guidance_scale=GUIDANCE)

    def here() -> None:
        with torch.inference_mode():
            told = [ours.told(Conditions(cross=part), torch.tensor([[0.0, seconds]])) for part in (text, 0 * text)]
        draw_latents(ours, *told, options.frames, [0], settings)

    def there() -> None:
        pipe(
            prompt_embeds=text, audio_end_in_s=seconds, num_inference_steps=options.steps, guidance_scale=GUIDANCE,
            output_type="latent",
        )  # fmt: skip

    return {"solfa": here, "StableAudioPipeline": there}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("frames", 128), ("dim", 256), ("layers", 6), ("rounds", 3), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sides = drawers(options)
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(options.rounds + 1):
        for name, draw in sides.items():
            begin = time.process_time()
            draw()
            if turn:
                found[name].append(time.process_time() - begin)
    for name, taken in found.items():
        print(f"{name:20} {median(taken):.3f} core-seconds for {options.steps} steps of {options.frames} frames")


if __name__ == "__main__":
    main()
