"""How long a training step of a diffusion transformer takes, and how much memory: Solfa, diffusers, stable-audio-tools.

    python benchmarks/flow_step.py [--clips 8] [--frames 256] [--dim 256] [--layers 6] [--rounds 3] [--steps 4]

The network is that of Stable Audio Open, which all three have, on the same latents, in float32 with one thread: a text
of 16 tokens, two numbers, the objective v, mean squared error, backward, fused AdamW. "diffusers" is the loop that one
writes around `StableAudioDiTModel`; "tools" is `DiffusionTransformer` of stable-audio-tools, from PyPI, put into a
folder by pip; nothing else imports it. Solfa's side is its solver's: noise and times drawn per clip, latents brought to
their scale. The sides run in turn, in processes of their own; CPU time, medians.

    python benchmarks/flow_step.py --disk

compares steps on latents from disk with steps that encode the audio of every batch first (the built-in codec, and an
Oobleck of Stable Audio's size with random weights, for two seconds of audio).

    python benchmarks/flow_step.py --sample

compares drawing a clip with guidance with `StableAudioPipeline`, both up to the latents, with as many steps.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

TOOLS = "stable-audio-tools==0.0.19"
CHANNELS, COND, TOKENS, HEAD = 64, 64, 16, 64

Loss = Callable[[], torch.Tensor]


def make_batch(options: argparse.Namespace) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {
        "latents": torch.randn(options.clips, CHANNELS, options.frames, generator=generator),
        "text": torch.randn(options.clips, TOKENS, COND, generator=generator),
        "seconds": torch.tensor([[0.0, 12.0]] * options.clips),
    }


def solfa_side(options: argparse.Namespace) -> tuple[torch.nn.Module, Loss]:
    from solfa.models import Conditions, ConditionsConfig, StableAudioOpenConfig, build_flow
    from solfa.ops import noised, target

    heads = options.dim // HEAD
    config = StableAudioOpenConfig(
        kind="stable_audio_open", dim=options.dim, num_layers=options.layers, num_heads=heads, num_kv_heads=1,
        cond_dim=COND,
    )  # fmt: skip
    network = build_flow(config, ConditionsConfig(), CHANNELS)
    batch = make_batch(options)

    def loss() -> torch.Tensor:
        data = network.normalised(batch["latents"].transpose(1, 2))
        generators = [torch.Generator().manual_seed(clip) for clip in range(options.clips)]
        noise = torch.stack([torch.randn(options.frames, CHANNELS, generator=one).T for one in generators])
        times = torch.rand(options.clips)
        told = network.told(Conditions(cross=batch["text"]), batch["seconds"])
        predicted = network.predict(noised(data, noise, times, "v"), times, told)
        return (predicted - target(data, noise, times, "v")).square().mean()

    return network, loss


def _plain(batch: dict[str, torch.Tensor], predict: Callable[..., torch.Tensor]) -> torch.Tensor:
    latents = batch["latents"]
    noise, times = torch.randn_like(latents), torch.rand(len(latents))
    a, b = (times * math.pi / 2).cos()[:, None, None], (times * math.pi / 2).sin()[:, None, None]
    return torch.nn.functional.mse_loss(predict(latents * a + noise * b, times), noise * a - latents * b)


def diffusers_side(options: argparse.Namespace) -> tuple[torch.nn.Module, Loss]:
    from diffusers import StableAudioDiTModel, StableAudioProjectionModel
    from diffusers.models.embeddings import get_1d_rotary_pos_embed

    network: Any = StableAudioDiTModel(
        in_channels=CHANNELS, out_channels=CHANNELS, num_layers=options.layers, attention_head_dim=HEAD,
        num_attention_heads=options.dim // HEAD, num_key_value_attention_heads=1, cross_attention_dim=COND,
        cross_attention_input_dim=COND, global_states_input_dim=2 * COND,
    )  # fmt: skip
    numbers: Any = StableAudioProjectionModel(COND, COND, 0, 512)
    both = torch.nn.ModuleDict({"network": network, "numbers": numbers})
    batch = make_batch(options)
    rotary = get_1d_rotary_pos_embed(HEAD // 2, options.frames + 1, use_real=True, repeat_interleave_real=False)

    def predict(points: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        told = numbers(start_seconds=batch["seconds"][:, 0], end_seconds=batch["seconds"][:, 1])
        start, end = told.seconds_start_hidden_states, told.seconds_end_hidden_states
        found: torch.Tensor = network(
            points, times, torch.cat([batch["text"], start, end], dim=1), torch.cat([start, end], dim=2), rotary,
            return_dict=False,
        )[0]  # fmt: skip
        return found

    return both, lambda: _plain(batch, predict)


def tools_side(options: argparse.Namespace) -> tuple[torch.nn.Module, Loss]:
    from diffusers import StableAudioProjectionModel
    from stable_audio_tools.models.dit import DiffusionTransformer  # type: ignore[import-not-found]

    network = DiffusionTransformer(
        io_channels=CHANNELS, embed_dim=options.dim, cond_token_dim=COND, project_cond_tokens=False,
        global_cond_dim=2 * COND, depth=options.layers, num_heads=options.dim // HEAD,
    )  # fmt: skip
    # Its own conditioners import packages that nothing else here needs; these are the same layers.
    numbers: Any = StableAudioProjectionModel(COND, COND, 0, 512)
    batch = make_batch(options)

    def predict(points: torch.Tensor, times: torch.Tensor) -> torch.Tensor:
        told = numbers(start_seconds=batch["seconds"][:, 0], end_seconds=batch["seconds"][:, 1])
        start, end = told.seconds_start_hidden_states, told.seconds_end_hidden_states
        found: torch.Tensor = network(
            points, times, cross_attn_cond=torch.cat([batch["text"], start, end], dim=1),
            global_embed=torch.cat([start, end], dim=2)[:, 0],
        )  # fmt: skip
        return found

    return torch.nn.ModuleDict({"network": network, "numbers": numbers}), lambda: _plain(batch, predict)


SIDES = {"solfa": solfa_side, "diffusers": diffusers_side, "tools": tools_side}


def measure(options: argparse.Namespace) -> None:
    """Run in a process of its own; print the seconds of each step but the first, and the peak of memory."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, loss_of = SIDES[options.side](options)
    size = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    seconds = []
    for _ in range(options.steps + 1):
        start = time.process_time()
        loss_of().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds[1:], "peak_mb": peak, "parameters": size}))


def start(side: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    sizes = [f"--{name}={getattr(options, name)}" for name in ("clips", "frames", "dim", "layers", "steps")]
    path = os.pathsep.join([*([str(folder)] if side == "tools" else []), os.environ.get("PYTHONPATH", "")])
    result = subprocess.run(
        [sys.executable, __file__, "--side", side, *sizes],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    if result.returncode:
        raise SystemExit(f"{side} failed:\n{result.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def from_disk(options: argparse.Namespace) -> None:
    """Compare a step on stored latents with one that encodes its audio first."""
    from diffusers import AutoencoderOobleck

    import solfa

    torch.set_num_threads(1)
    audio = 0.1 * torch.randn(1, 2, 2 * 44_100)
    oobleck: Any = AutoencoderOobleck().eval()
    codec = solfa.load_codec("solfa_24khz:latents=true")
    model, loss_of = solfa_side(options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        loss_of().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    def timed(work: Callable[[], Any]) -> float:
        found = []
        for _ in range(options.rounds):
            begin = time.process_time()
            with torch.no_grad() if work is not step else torch.enable_grad():
                work()
            found.append(time.process_time() - begin)
        return median(found)

    step()
    seconds = options.frames * 2048 / 44_100
    mono = torch.randn(1, 1, 2 * 24_000) * 0.1
    encoders = {
        "Oobleck of Stable Audio": timed(lambda: oobleck.encode(audio)) / 2,
        "solfa_24khz:latents=true": timed(lambda: codec.encode(mono)) / 2,
    }
    alone = timed(step)
    print(f"a step of {options.clips} clips of {seconds:.1f} s on stored latents: {alone:.2f} core-seconds")
    for name, per_second in encoders.items():
        whole = alone + per_second * seconds * options.clips
        print(f"  encoding in the loop with {name}: {whole:.2f} core-seconds, {whole / alone:.1f} times as many")


def sampling(options: argparse.Namespace) -> None:
    """Compare drawing with the pipeline of diffusers."""
    from diffusers import AutoencoderOobleck, EDMDPMSolverMultistepScheduler, StableAudioPipeline

    from solfa.models import Conditions, FlowSampling, draw_latents

    torch.set_num_threads(1)
    ours: Any = solfa_side(options)[0]
    both: Any = diffusers_side(options)[0]
    both["network"].load_state_dict(ours.dit.dit.state_dict())
    both["network"].register_to_config(sample_size=options.frames)
    vae = AutoencoderOobleck(
        encoder_hidden_size=4, channel_multiples=[1] * 5, decoder_channels=4, decoder_input_channels=CHANNELS
    )
    pipe: Any = StableAudioPipeline(
        vae, None, both["numbers"], None, both["network"], EDMDPMSolverMultistepScheduler(sigma_max=80)
    )
    pipe.set_progress_bar_config(disable=True)
    text = make_batch(options)["text"][:1]
    settings = FlowSampling(sampler="dpm++", steps=10, guidance_scale=3.0)

    def here() -> None:
        with torch.inference_mode():
            told = [ours.told(Conditions(cross=part), torch.tensor([[0.0, 12.0]])) for part in (text, 0 * text)]
        draw_latents(ours, *told, options.frames, [0], settings)

    def there() -> None:
        pipe(
            prompt_embeds=text,
            audio_end_in_s=0.9 * options.frames * 2048 / 44_100,
            num_inference_steps=10,
            guidance_scale=3.0,
            output_type="latent",
        )

    found: dict[str, list[float]] = {"solfa": [], "StableAudioPipeline": []}
    for turn in range(options.rounds + 1):
        for name, work in (("solfa", here), ("StableAudioPipeline", there)):
            begin = time.process_time()
            work()
            if turn:
                found[name].append(time.process_time() - begin)
    for name, seconds in found.items():
        print(f"{name:20} {median(seconds):.3f} core-seconds for 10 steps of one clip of {options.frames} frames")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("clips", 8), ("frames", 256), ("dim", 256), ("layers", 6), ("rounds", 3), ("steps", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--disk", action="store_true")
    parser.add_argument("--sample", action="store_true")
    options = parser.parse_args()
    modes = {"disk": from_disk, "sample": sampling, "side": measure}
    for name, work in modes.items():
        if getattr(options, name):
            work(options)
            return
    with tempfile.TemporaryDirectory() as folder:
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, TOOLS]
        subprocess.run(install, check=True)
        runs: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
        for _ in range(options.rounds):
            for side, found in runs.items():
                found.append(start(side, options, Path(folder)))
    for side, found in runs.items():
        seconds = median(value for run in found for value in run["seconds"])
        print(
            f"{side:10} {found[0]['parameters']:,} parameters  {seconds:.3f} core-seconds a step  "
            f"peak {median(run['peak_mb'] for run in found):.0f} MB"
        )


if __name__ == "__main__":
    main()
