"""How fast codes are generated with a decoder of MusicGen-small's size, beside transformers' `generate`.

    python benchmarks/lm_generation.py [--threads 1] [--frames 24] [--rounds 5] [--batch 16] [--layers 24]

Random weights, guidance 3, a text of eight tokens, top-k 250. Both sides run in one process with the same number of
threads, in turn; medians. With one thread the clock is the process's CPU time, so that other programs on the machine
disturb less; with more it is the clock on the wall. The reading speed is that of `Tensor.sum` over as many bytes, and
a step reads every linear layer once, except the keys and values of the cross-attention, which are kept.

Weights: `transformers` and `plain` are F.linear; `fp32`, `fp16`, `int8` and `int4` are laid out as `solfa generate`
does it where the C kernel is fastest. `lm_layout_loss.py` measures what they do to the predictions.
"""

import argparse
import copy
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import torch

from solfa.environment import worker_environment
from solfa.models import CodecLM, CodecLMConfig, Conditions, GenerationSettings, generate, lay_out_weights

CODEBOOKS, CODEBOOK_SIZE, DIM, HEADS, FFN_DIM, TEXT_TOKENS = 4, 2048, 1024, 16, 4096, 8
EXTRA_STEPS = CODEBOOKS - 1
BITS = {"fp32": 32, "fp16": 16, "int8": 8, "int4": 4.5}
SETTINGS = GenerationSettings(guidance_scale=3.0, top_k=250)

Work = Callable[[], object]


def our_model(num_layers: int) -> CodecLM:
    torch.manual_seed(0)
    config = CodecLMConfig(
        num_codebooks=CODEBOOKS,
        codebook_size=CODEBOOK_SIZE,
        dim=DIM,
        num_layers=num_layers,
        num_heads=HEADS,
        ffn_dim=FFN_DIM,
        cross_attention=True,
    )
    return CodecLM(config).eval()


def their_model(num_layers: int) -> Any:
    """Build MusicGen with a text encoder and a codec so small that they cost nothing."""
    from transformers import EncodecConfig, MusicgenConfig, MusicgenForConditionalGeneration, T5Config
    from transformers.models.musicgen.configuration_musicgen import MusicgenDecoderConfig

    text = T5Config(vocab_size=64, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    codec = EncodecConfig(
        sampling_rate=32_000,
        upsampling_ratios=[8, 5, 4, 4],
        target_bandwidths=[2.2],
        codebook_size=CODEBOOK_SIZE,
        num_filters=2,
        hidden_size=4,
        codebook_dim=4,
        num_lstm_layers=1,
        use_causal_conv=False,
    )
    decoder = MusicgenDecoderConfig(
        num_hidden_layers=num_layers, hidden_size=DIM, num_attention_heads=HEADS, ffn_dim=FFN_DIM
    )
    model = MusicgenForConditionalGeneration(
        MusicgenConfig(text_encoder=text.to_dict(), audio_encoder=codec.to_dict(), decoder=decoder.to_dict())
    )
    model.generation_config.decoder_start_token_id = model.generation_config.pad_token_id = CODEBOOK_SIZE
    return model.eval()


def their_generate(model: Any, batch: int, num_frames: int) -> Work:
    ids = torch.randint(2, 64, (batch, TEXT_TOKENS), generator=torch.Generator().manual_seed(0))
    steps = num_frames + EXTRA_STEPS
    sampling = {"do_sample": True, "top_k": SETTINGS.top_k, "guidance_scale": SETTINGS.guidance_scale}
    return lambda: model.generate(input_ids=ids, max_new_tokens=steps, **sampling)


def our_generate(model: CodecLM, batch: int, num_frames: int) -> Work:
    cross = torch.randn(batch, TEXT_TOKENS, DIM, generator=torch.Generator().manual_seed(0))
    return lambda: generate(model, Conditions(cross=cross), num_frames, SETTINGS, range(batch))


def bytes_per_step(model: CodecLM) -> int:
    linears = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    return sum(module.weight.nbytes for name, module in linears.items() if not name.endswith("key_value"))


def read_all(num_bytes: int) -> Work:
    """Sum as many bytes as a step reads, in pieces of the size of its weights."""
    pieces = [torch.randn(FFN_DIM, DIM) for _ in range(max(1, num_bytes // (4 * FFN_DIM * DIM)))]
    return lambda: [piece.sum() for piece in pieces]


def interleave(work: Mapping[str, Work], rounds: int, threads: int) -> dict[str, float]:
    """Run each in turn, once unmeasured; median seconds."""
    clock = time.process_time if threads == 1 else time.perf_counter
    taken: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(rounds + 1):
        for name, run in work.items():
            start = clock()
            run()
            if turn:
                taken[name].append(clock() - start)
    return {name: median(seconds) for name, seconds in taken.items()}


def table(seconds: Mapping[str, float], clips: Mapping[str, int], num_frames: int, step_bytes: int) -> None:
    read = step_bytes / seconds["read"]
    theirs = seconds["transformers, batch 1"]
    print(f"\nReading: {read / 1e9:.1f} GB/s; a step reads {step_bytes / 1e9:.2f} GB of float32 weights.\n")
    print("| weights, clips at once | ms per step | frames/s | tokens/s | times transformers | of the reading speed |")
    print("|---|---|---|---|---|---|")
    for name, count in clips.items():
        step = seconds[name] / (num_frames + EXTRA_STEPS)
        frames = count * num_frames / seconds[name]
        read_bytes = step_bytes * BITS.get(name.partition(",")[0], 32) / 32
        share = f"{read_bytes / step / read:.0%}" if count == 1 else ""
        times = frames / (num_frames / theirs)
        print(f"| {name} | {step * 1e3:.0f} | {frames:.2f} | {frames * CODEBOOKS:.0f} | {times:.2f}x | {share} |")


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    frames, batch = options.frames, options.batch
    plain = our_model(options.layers)
    step_bytes = bytes_per_step(plain)
    laid_out = {name: lay_out_weights(copy.deepcopy(plain), name) for name in BITS}
    work = {
        "read": read_all(step_bytes),
        "transformers, batch 1": their_generate(their_model(options.layers), 1, frames),
        "plain, batch 1": our_generate(plain, 1, frames),
        **{f"{name}, batch 1": our_generate(model, 1, frames) for name, model in laid_out.items()},
        **{f"{name}, batch {batch}": our_generate(model, batch, frames) for name, model in laid_out.items()},
    }
    clips = {name: 1 if name.endswith("batch 1") else batch for name in work if name != "read"}
    with torch.inference_mode():
        seconds = interleave(work, options.rounds, options.threads)
    clock = "CPU time" if options.threads == 1 else "wall time"
    print(f"{options.threads} thread(s), {clock}, {frames} frames, {options.rounds} interleaved rounds, medians;")
    print(f"{options.layers} layers, {cpu_name()}, torch {torch.__version__}")
    table(seconds, clips, frames, step_bytes)


def cpu_name() -> str:
    return f"{os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()}"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--frames", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--in-child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.in_child:
        run(options)
        return
    # The allocator reads its settings when a process starts. Both sides get the same.
    command = [sys.executable, __file__, *arguments, "--in-child"]
    sys.exit(subprocess.run(command, env=worker_environment(os.environ), check=False).returncode)


if __name__ == "__main__":
    main(sys.argv[1:])
