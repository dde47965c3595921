"""Tiny bases and donors, written and read back as real ones are, and small models made of them."""

import copy
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, MusicgenForCausalLM

from solfa.models.lm.network import cross_entropy
from solfa.models.mot.assembly import load_donor
from solfa.models.mot.config import MoTConfig
from solfa.models.mot.network import Donor, MoT
from solfa.models.mot.prefix import TextIds, TextPrefix, join_texts
from solfa.models.mot.text_base import FrozenLM, load_base
from solfa.models.mot.tiny_llama import tiny_llama, tiny_tokenizer
from tests.models.tiny_musicgen import decoder_config, redraw

K, V = 3, 8
DONOR_WIDTH, DONOR_FFN, DONOR_LAYERS = 16, 24, 5
TEXTS = ([1, 70, 71, 72, 73], [1, 90], [1, 81, 82, 83])
ATTENTION: list[dict[str, Any]] = [{"kind": "shared"}, {"kind": "copy"}, {"kind": "lora", "rank": 3, "scale": 0.5}]
FFN: list[dict[str, Any]] = [{"kind": "bridge"}, {"kind": "copy"}, {"kind": "lora", "rank": 3, "scale": 2.0}]
LAYOUTS: list[dict[str, Any]] = [
    {"kind": "delay"},
    {"kind": "parallel"},
    {"kind": "flat", "ids": "offset"},
    {"kind": "flat", "ids": "shared"},
]
KINDS = list(zip(ATTENTION, FFN, strict=True))
"""Every kind of both experts once; that all combinations can be built is tested where models are built."""


def name_of(settings: object) -> str:
    """Name a kind in the ids of parametrised tests."""
    if isinstance(settings, tuple):
        return "-".join(map(name_of, settings))
    return (
        "_".join(str(settings[key]) for key in ("kind", "ids") if key in settings) if isinstance(settings, dict) else ""
    )


def write_base(directory: Path, *, scale: float = 1.0, **changes: Any) -> Path:
    """Write a tiny Llama with Llama 3's RoPE scaling; `scale` makes it another one."""
    model = tiny_llama(**changes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(scale)
    model.save_pretrained(directory)
    tiny_tokenizer().save_pretrained(directory)
    return directory


def write_donor(directory: Path, **changes: Any) -> Path:
    """Write a tiny MusicGen decoder, of another width and depth than the base."""
    sizes = {"vocab_size": V, "num_codebooks": K, "hidden_size": DONOR_WIDTH, "num_hidden_layers": DONOR_LAYERS}
    specials = {"ffn_dim": DONOR_FFN, "pad_token_id": V, "bos_token_id": V}
    model = MusicgenForCausalLM(decoder_config(**{**sizes, **specials, **changes}))
    redraw(model)
    model.save_pretrained(directory)
    return directory


def fresh_base(directory: Path) -> FrozenLM:
    """Give the base of a directory, read once, in a copy that a test may move."""
    base = _read_base(directory)
    return FrozenLM(copy.deepcopy(base.model), base.tokenizer, base.fingerprint, base.location)


@cache
def _read_base(directory: Path) -> FrozenLM:
    return load_base(str(directory))


@cache
def read_donor(directory: Path) -> Donor:
    return load_donor(str(directory))


def make_mot(base: Path, donor: Path | None = None, *, shaken: bool = True, **settings: Any) -> MoT:
    """Build a model; shaken, no weight is zero any more, so that every path shows in what comes out."""
    values = {"base": str(base), "donor": None if donor is None else str(donor), "num_codebooks": K, "codebook_size": V}
    config = MoTConfig.model_validate({**values, **settings})
    torch.manual_seed(3)
    model = MoT(config, fresh_base(base), None if donor is None else read_donor(donor))
    if shaken:
        shake(model)
    return model


@torch.no_grad()
def shake(model: torch.nn.Module, std: float = 0.1) -> None:
    """Move every weight that is trained."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.add_(torch.randn(parameter.shape, dtype=parameter.dtype), alpha=std)


def doubled(model: MoT) -> MoT:
    """Put a model and its base in float64."""
    model.base.model.double()
    return model.double()


def prefix_of(model: MoT, texts: Sequence[Sequence[int]] = TEXTS) -> TextPrefix:
    """Give what audio attends of texts, in the base's own precision."""
    return join_texts([model.base.keys_and_values(ids) for ids in texts])


def ids_of(texts: Sequence[Sequence[int]] = TEXTS, *, room: int = 0, padding: int = 0) -> TextIds:
    """Pad texts on the right, to the longest and `room` more."""
    lengths = [len(text) for text in texts]
    ids = torch.full((len(texts), max(lengths) + room), padding)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.tensor(text, dtype=torch.int64)
    return TextIds(ids, torch.tensor(lengths))


def make_codes(num_frames: int = 5, batch: int = len(TEXTS)) -> tuple[Tensor, Tensor]:
    """Draw codes, and a mask that leaves them all."""
    return torch.randint(0, V, (batch, K, num_frames)), torch.ones(batch, num_frames, dtype=torch.bool)


def make_tokens(num_steps: int, batch: int = len(TEXTS)) -> Tensor:
    return torch.randint(0, V + 1, (batch, K, num_steps))


def train(model: MoT, num_steps: int, lr: float = 1e-2) -> list[float]:
    """Take optimiser steps on one batch; give the losses."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=lr)
    (codes, mask), losses = make_codes(), []
    for _ in range(num_steps):
        optimizer.zero_grad()
        losses.append(step_loss(model, codes, mask, prefix_of(model)))
        losses[-1].backward()
        optimizer.step()
    return [loss.item() for loss in losses]


def step_loss(model: MoT, codes: Tensor, mask: Tensor, text: TextPrefix | TextIds) -> Tensor:
    """The mean nats of the codes."""
    nats = cross_entropy(model(codes, mask, text), codes, mask[:, None].expand_as(codes))
    return nats.sum() / (mask.sum() * K)


def gradients(model: MoT) -> dict[str, Tensor]:
    """Give the gradients that a backward left, zero where it left none, and forget them."""
    found = {
        name: torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    model.zero_grad()
    return found


def their_model(directory: Path) -> LlamaForCausalLM:
    """Load the base as somebody would who never heard of Solfa.

    Copied, as a base here is: weights that are mapped from a file stand at other addresses, and the last bits of a
    product depend on whether an address is a multiple of 64.
    """
    return copy.deepcopy(LlamaForCausalLM.from_pretrained(directory, attn_implementation="sdpa").eval())
