"""The diffusion transformers of stable-audio-tools and stable-audio-3, restated: their tensors and their arithmetic.

Written from what their files say, with loops and plain sums, and none of the code that is tested.
"""

import math

import torch
from torch import Tensor

HEADS, HEAD, DEPTH = 2, 64, 2
DIM, COND, CHANNELS = HEADS * HEAD, 64, 4


def drawn(shapes, seed=0):
    """Draw a state dict: norms near one, everything else small enough to keep signals alive."""
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in shapes.items():
        values = torch.randn(*shape, generator=generator, dtype=torch.float64)
        is_norm = name.endswith("gamma")
        state[name] = 1 + 0.2 * values if is_norm else values * (0.5 if len(shape) == 1 else shape[-1] ** -0.5)
    return {name: values.float().double() for name, values in state.items()}  # as files have them


def layer_shapes(kind):
    """List the tensors of a layer."""
    parts = 5 if kind == "three" else 3
    shapes = {
        "self_attn.to_qkv.weight": (parts * DIM, DIM),
        "self_attn.to_out.weight": (DIM, DIM),
        "cross_attn.to_out.weight": (DIM, DIM),
        "ff.ff.0.proj.weight": (8 * DIM, DIM),
        "ff.ff.0.proj.bias": (8 * DIM,),
        "ff.ff.2.weight": (DIM, 4 * DIM),
        "ff.ff.2.bias": (DIM,),
    }
    for norm in ("pre_norm", "cross_attend_norm", "ff_norm"):
        shapes[f"{norm}.gamma"] = (DIM,)
    if kind == "open":
        own = {"cross_attn.to_q.weight": (DIM, DIM), "cross_attn.to_kv.weight": (2 * COND, COND)}
        return shapes | own | {f"{norm}.beta": (DIM,) for norm in ("pre_norm", "cross_attend_norm", "ff_norm")}
    own = {"cross_attn.to_q.weight": (2 * DIM, DIM), "cross_attn.to_kv.weight": (3 * DIM, DIM)}
    own |= {f"{part}.{norm}.gamma": (HEAD,) for part in ("self_attn", "cross_attn") for norm in ("q_norm", "k_norm")}
    local = {"to_local_embed.0.weight": (DIM, CHANNELS + 1), "to_local_embed.0.bias": (DIM,)}
    local |= {"to_local_embed.2.weight": (DIM, DIM), "to_local_embed.2.bias": (DIM,)}
    return shapes | own | local | {"to_scale_shift_gate": (6 * DIM,)}


def checkpoint(kind, seed=0):
    """Draw an unwrapped checkpoint, with some tensors of the autoencoder that it comes with."""
    width = COND if kind == "open" else DIM
    shapes = {
        "to_timestep_embed.0.weight": (DIM, 256),
        "to_timestep_embed.0.bias": (DIM,),
        "to_timestep_embed.2.weight": (DIM, DIM),
        "to_timestep_embed.2.bias": (DIM,),
        "to_cond_embed.0.weight": (width, COND),
        "to_cond_embed.2.weight": (width, width),
        "to_global_embed.0.weight": (DIM, 2 * COND if kind == "open" else COND),
        "to_global_embed.2.weight": (DIM, DIM),
        "preprocess_conv.weight": (CHANNELS, CHANNELS, 1),
        "postprocess_conv.weight": (CHANNELS, CHANNELS, 1),
        "transformer.project_in.weight": (DIM, CHANNELS),
        "transformer.project_out.weight": (CHANNELS, DIM),
    }
    for layer in range(DEPTH):
        shapes |= {f"transformer.layers.{layer}.{name}": shape for name, shape in layer_shapes(kind).items()}
    if kind == "open":
        shapes["timestep_features.weight"] = (128, 1)
    else:
        shapes["transformer.memory_tokens"] = (3, DIM)
        for place, (rows, columns) in enumerate([(DIM, DIM), (6 * DIM, DIM)]):
            shapes |= {f"transformer.global_cond_embedder.{2 * place}.weight": (rows, columns)}
            shapes |= {f"transformer.global_cond_embedder.{2 * place}.bias": (rows,)}
    network = drawn(shapes, seed)
    network["transformer.rotary_pos_emb.inv_freq"] = frequencies()
    state = {f"model.model.{name}": tensor for name, tensor in network.items()}
    state |= {f"conditioner.conditioners.{name}": tensor for name, tensor in conditioner(kind, seed + 1).items()}
    state["pretransform.model.encoder.layers.0.weight_g"] = torch.ones(3, 1, 1)
    return state


def conditioner(kind, seed):
    if kind == "three":
        shapes = {"seconds_total.embedder.embedding.1.weight": (COND, 256)}
        return drawn(shapes | {"seconds_total.embedder.embedding.1.bias": (COND,), "prompt.padding_embedding": (COND,)})
    shapes = {}
    for name in ("seconds_start", "seconds_total"):
        shapes[f"{name}.embedder.embedding.0.weights"] = (128,)
        shapes[f"{name}.embedder.embedding.1.weight"] = (COND, 257)
        shapes[f"{name}.embedder.embedding.1.bias"] = (COND,)
    return drawn(shapes, seed)


def frequencies():
    width = max(HEAD // 2, 32)
    return torch.tensor([10_000.0 ** (-2 * place / width) for place in range(width // 2)], dtype=torch.float64)


def linear(x, state, name):
    found = x @ state[f"{name}.weight"].T
    return found + state[f"{name}.bias"] if f"{name}.bias" in state else found


def silu(x):
    return x / (1 + (-x).exp())


def two_layers(x, state, name):
    return linear(silu(linear(x, state, f"{name}.0")), state, f"{name}.2")


def rotated(x):
    """Turn the first half of a head's channels by positions, in pairs (i, i + quarter)."""
    freqs = frequencies()
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * freqs
    quarter = len(freqs)
    first, second, rest = x[..., :quarter], x[..., quarter : 2 * quarter], x[..., 2 * quarter :]
    turned = (first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin())
    return torch.cat([*turned, rest], dim=-1)


def attention(q, k, v):
    weights = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return weights @ v


def heads(x):
    return x.reshape(*x.shape[:2], -1, HEAD).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).reshape(len(x), x.shape[2], -1)


def rms(x, gamma, eps):
    return x / (x.pow(2).mean(dim=-1, keepdim=True) + eps).sqrt() * gamma


def feed_forward(x, state, layer):
    value, gate = linear(x, state, f"{layer}.ff.ff.0.proj").chunk(2, dim=-1)
    return linear(value * silu(gate), state, f"{layer}.ff.ff.2")


def features(times, weight):
    angles = 2 * math.pi * times[:, None] * weight
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def expo(times):
    """Embed times; with frequencies up to 10,000, what float32 makes of the angles is part of the definition."""
    ramp = torch.linspace(0, 1, 128)
    weight = torch.exp(ramp * (math.log(10_000.0) - math.log(0.5)) + math.log(0.5))
    angles = times.float()[:, None] * weight * 2 * math.pi
    return torch.cat([angles.cos(), angles.sin()], dim=-1).double()


def around(x, network, run):
    """Do what comes before and after the layers."""
    x = x + torch.einsum("oc,bct->bot", network["preprocess_conv.weight"][..., 0], x)
    out = linear(run(linear(x.transpose(1, 2), network, "transformer.project_in")), network, "transformer.project_out")
    out = out.transpose(1, 2)
    return out + torch.einsum("oc,bct->bot", network["postprocess_conv.weight"][..., 0], out)


def predict_open(network, x, times, context, overall):
    """Predict as Stable Audio Open: seconds and time are one more place at the beginning."""
    context = two_layers(context, network, "to_cond_embed")
    first = two_layers(overall, network, "to_global_embed")
    first = first + two_layers(features(times, network["timestep_features.weight"][:, 0]), network, "to_timestep_embed")

    def norm(x, name):
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return x * network[f"{name}.gamma"] + network[f"{name}.beta"]

    def run(x):
        x = torch.cat([first[:, None], x], dim=1)
        for layer in (f"transformer.layers.{place}" for place in range(DEPTH)):
            q, k, v = (
                heads(p)
                for p in linear(norm(x, f"{layer}.pre_norm"), network, f"{layer}.self_attn.to_qkv").chunk(3, -1)
            )
            x = x + linear(merged(attention(rotated(q), rotated(k), v)), network, f"{layer}.self_attn.to_out")
            q = heads(linear(norm(x, f"{layer}.cross_attend_norm"), network, f"{layer}.cross_attn.to_q"))
            k, v = (heads(p) for p in linear(context, network, f"{layer}.cross_attn.to_kv").chunk(2, -1))
            repeats = q.shape[1] // k.shape[1]
            found = attention(q, k.repeat_interleave(repeats, dim=1), v.repeat_interleave(repeats, dim=1))
            x = x + linear(merged(found), network, f"{layer}.cross_attn.to_out")
            x = x + feed_forward(norm(x, f"{layer}.ff_norm"), network, layer)
        return x[:, 1:]

    return around(x, network, run)


def predict_three(network, x, times, context, overall, known, eps):
    """Predict as Stable Audio 3: seconds and time scale, shift and gate every layer, and attention is a difference."""
    context = two_layers(context, network, "to_cond_embed")
    step = two_layers(expo(times), network, "to_timestep_embed")
    shared = two_layers(
        two_layers(overall, network, "to_global_embed") + step, network, "transformer.global_cond_embedder"
    )
    memory = network["transformer.memory_tokens"]

    def normed(part, layer, name):
        return rms(part, network[f"{layer}.{name}.gamma"], 1e-6)

    def run(x):
        x = torch.cat([memory.expand(len(x), -1, -1), x], dim=1)
        for layer in (f"transformer.layers.{place}" for place in range(DEPTH)):
            scale, shift, gate, scale2, shift2, gate2 = (network[f"{layer}.to_scale_shift_gate"] + shared)[
                :, None
            ].chunk(6, dim=-1)
            inner = rms(x, network[f"{layer}.pre_norm.gamma"], eps) * (1 + scale) + shift
            q, k, v, q2, k2 = (heads(p) for p in linear(inner, network, f"{layer}.self_attn.to_qkv").chunk(5, -1))
            turn = lambda part, name: rotated(normed(part, f"{layer}.self_attn", name))  # noqa: B023, E731
            found = attention(turn(q, "q_norm"), turn(k, "k_norm"), v)
            found = found - attention(turn(q2, "q_norm"), turn(k2, "k_norm"), v)
            x = x + linear(merged(found), network, f"{layer}.self_attn.to_out") / (1 + (gate - 1).exp())
            inner = rms(x, network[f"{layer}.cross_attend_norm.gamma"], eps)
            q, q2 = (heads(p) for p in linear(inner, network, f"{layer}.cross_attn.to_q").chunk(2, -1))
            k, k2, v = (heads(p) for p in linear(context, network, f"{layer}.cross_attn.to_kv").chunk(3, -1))
            flat = lambda part, name: normed(part, f"{layer}.cross_attn", name)  # noqa: B023, E731
            found = attention(flat(q, "q_norm"), flat(k, "k_norm"), v)
            found = found - attention(flat(q2, "q_norm"), flat(k2, "k_norm"), v)
            x = x + linear(merged(found), network, f"{layer}.cross_attn.to_out")
            local = two_layers(known.transpose(1, 2), network, f"{layer}.to_local_embed")
            x = torch.cat([x[:, : len(memory)], x[:, len(memory) :] + local], dim=1)
            inner = rms(x, network[f"{layer}.ff_norm.gamma"], eps) * (1 + scale2) + shift2
            x = x + feed_forward(inner, network, layer) / (1 + (gate2 - 1).exp())
        return x[:, len(memory) :]

    return around(x, network, run)


def model_config(kind, max_seconds=100, scale=1.0):
    """Write the `model_config.json` of such a checkpoint."""
    dit = {
        "io_channels": CHANNELS,
        "embed_dim": DIM,
        "depth": DEPTH,
        "num_heads": HEADS,
        "cond_token_dim": COND,
        "transformer_type": "continuous_transformer",
    }
    names = ["seconds_start", "seconds_total"] if kind == "open" else ["seconds_total"]
    if kind == "open":
        dit |= {"global_cond_dim": 2 * COND, "project_cond_tokens": False}
    else:
        dit |= {"global_cond_dim": COND, "global_cond_type": "adaLN", "timestep_features_type": "expo"}
        dit |= {"num_memory_tokens": 3, "local_add_cond_dim": CHANNELS + 1, "norm_type": "rms_norm"}
        dit |= {"attn_kwargs": {"qk_norm": "rms", "differential": True}, "norm_kwargs": {"force_fp32": True}}
    text = {"id": "prompt", "type": "t5" if kind == "open" else "t5gemma", "config": {"max_length": 6}}
    numbers = [{"id": name, "type": "number", "config": {"min_val": 0, "max_val": max_seconds}} for name in names]
    return {
        "model_type": "diffusion_cond" if kind == "open" else "diffusion_cond_inpaint",
        "sample_size": 4096,
        "sample_rate": 44100,
        "model": {
            "pretransform": {"type": "autoencoder", "scale": scale, "config": {"downsampling_ratio": 64}},
            "conditioning": {"configs": [text, *numbers], "cond_dim": COND},
            "diffusion": {
                "type": "dit",
                "diffusion_objective": "v" if kind == "open" else "rectified_flow",
                "cross_attention_cond_ids": ["prompt", *names],
                "global_cond_ids": names,
                "config": dit,
            },
            "io_channels": CHANNELS,
        },
    }


def seconds_vector(state: dict[str, Tensor], name: str, kind: str, seconds: Tensor, max_seconds: float = 100) -> Tensor:
    """Embed seconds as its conditioners do."""
    share = seconds.clamp(0, max_seconds) / max_seconds
    weights = {
        key.removeprefix(f"conditioner.conditioners.{name}.embedder.embedding."): value for key, value in state.items()
    }
    if kind == "three":
        return linear(expo(share), weights, "1")
    angles = 2 * math.pi * share[:, None] * weights["0.weights"]
    return linear(torch.cat([share[:, None], angles.sin(), angles.cos()], dim=-1), weights, "1")
