"""What weights of fewer bits do to a language model's predictions: the divergence from those of float32.

    python benchmarks/lm_layout_loss.py [--layers 24] [--frames 50] [--trained FOLDER]
    python benchmarks/lm_layout_loss.py --model solfa_tiny_music --text "slow piano chords in A minor, 80 bpm" ...

A decoder of MusicGen-small's size with random weights, whose heads were made sharper (random ones are almost uniform),
or `--trained FOLDER`, a checkpoint of transformers' MusicGen, reads codes that it drew itself, step by step, as in
generation. Printed is the mean of KL(float32 || layout) in nats per code, and how often the most probable code differs.
Cross-entropy is no measure for this: its noise is larger than the loss.

Trained models have a few channels with large activations. `planted` has them, too: in every norm, some gains are
multiplied by 30, and the weights that read these channels divided by it, which changes nothing but rounding.

With `--model` it is a trained model of Solfa's, which draws a clip for each --text.
"""

import argparse
import copy
import warnings

import torch
from torch import Tensor, nn

from solfa.generate.language_model import LanguageModel
from solfa.generate.model import build_model, find_folder, read_trained
from solfa.models import (
    CodecLM,
    CodecLMConfig,
    Conditions,
    GenerationSettings,
    generate,
    lay_out_weights,
    load_musicgen,
)

CODEBOOKS, CODEBOOK_SIZE, DIM, HEADS, FFN_DIM, TEXT_TOKENS, NUM_CLIPS = 4, 2048, 1024, 16, 4096, 8, 2
OUTLIERS, FACTOR = 8, 30.0


def sharp_model(num_layers: int) -> CodecLM:
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
    model = CodecLM(config).eval()
    model.heads.weight.data *= 4
    return model


@torch.no_grad()
def plant_outliers(model: CodecLM) -> CodecLM:
    planted = copy.deepcopy(model)
    for layer in planted.transformer.layers:
        readers = {layer.self_norm: layer.self_attention.qkv, layer.ffn_norm: layer.fc1}
        readers[layer.cross_norm] = layer.cross_attention.query
        for norm, linear in readers.items():
            channels = torch.randperm(len(norm.weight))[:OUTLIERS]
            norm.weight[channels] *= FACTOR
            norm.bias[channels] *= FACTOR
            linear.weight[:, channels] /= FACTOR
    return planted


def quantize_dynamic(model: CodecLM) -> CodecLM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)


@torch.inference_mode()
def log_probs(model: CodecLM, tokens: Tensor, conditions: Conditions) -> Tensor:
    cache = model.new_cache(len(tokens), tokens.shape[2])
    steps = [model(column, conditions, cache) for column in tokens.split(1, dim=2)]
    return torch.cat(steps, dim=2).double().log_softmax(-1)


def told_tokens(model: CodecLM, conditions: Conditions, num_clips: int, num_frames: int) -> Tensor:
    """Draw codes, unguided, and lay them out as the model reads them; the last steps have no code everywhere."""
    codes = generate(model, conditions, num_frames, GenerationSettings(guidance_scale=1, top_k=0), range(num_clips))
    return codes[:, :, : num_frames - model.config.num_codebooks]


def random_text(model: CodecLM) -> Conditions:
    return Conditions(
        cross=torch.randn(NUM_CLIPS, TEXT_TOKENS, model.config.dim, generator=torch.Generator().manual_seed(1))
    )


def own_model(name: str, texts: list[str]) -> tuple[CodecLM, Conditions]:
    """Load a model of Solfa's, and what it is told by texts."""
    generator = build_model(read_trained(find_folder(name)), device="cpu").generator
    if not isinstance(generator, LanguageModel):
        raise SystemExit(f"--model: expected a codec language model, found {name}, which is another kind")
    with torch.inference_mode():
        told = generator.network.conditioners.checked([{"description": text} for text in texts])()
    return generator.network.lm.eval(), told


def compare(model: CodecLM, conditions: Conditions, named: str, num_clips: int, num_frames: int) -> None:
    tokens = told_tokens(model, conditions, num_clips, num_frames)
    exact = log_probs(model, tokens, conditions)
    builders = {
        f"{layout}, cache of {bits} bits": lambda m, layout=layout, bits=bits: lay_out_weights(
            m, layout, "kernel", bits
        )
        for layout in ("fp32", "fp16", "int8", "int4")
        for bits in (16, 8)
    }
    for way, build in {**builders, "quantize_dynamic": quantize_dynamic}.items():
        found = log_probs(build(copy.deepcopy(model)), tokens, conditions)
        divergence = (exact.exp() * (exact - found)).sum(-1).mean()
        changed = (exact.argmax(-1) != found.argmax(-1)).double().mean()
        print(f"| {named} | {way} | {divergence:.1e} | {changed:.2%} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--trained", help="a folder that transformers saved MusicGen to")
    parser.add_argument("--model", help="a trained model of Solfa's instead")
    parser.add_argument("--text", action="append", help="what it is asked for; once for each clip")
    options = parser.parse_args()
    if (options.model is None) != (options.text is None) or (options.model and options.trained):
        parser.error("--model and --text go together, and without --trained")
    print("| weights | layout | KL to float32, nats per code | other most probable code |\n|---|---|---|---|")
    if options.model is not None:
        compare(*own_model(options.model, options.text), options.model, len(options.text), options.frames)
        return
    model = sharp_model(options.layers) if options.trained is None else load_musicgen(options.trained).model.eval()
    kinds = {"random" if options.trained is None else "trained": model, "planted": plant_outliers(model)}
    for named, kind in kinds.items():
        compare(kind, random_text(kind), named, NUM_CLIPS, options.frames)


if __name__ == "__main__":
    main()
