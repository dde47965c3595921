"""Tiny MusicGen checkpoints that transformers writes, and the logits of both sides."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import (
    EncodecConfig,
    MusicgenConfig,
    MusicgenDecoderConfig,
    MusicgenForCausalLM,
    MusicgenForConditionalGeneration,
    T5Config,
)
from transformers.modeling_outputs import BaseModelOutput

from solfa.models.lm.conditions import Conditions
from solfa.models.lm.musicgen import LoadedMusicgen

K, V, D, TEXT = 4, 16, 16, 12
MASK = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])


def decoder_config(**changes: Any) -> MusicgenDecoderConfig:
    sizes = {"vocab_size": V, "num_codebooks": K, "hidden_size": D, "num_hidden_layers": 3, "num_attention_heads": 2}
    specials = {"ffn_dim": 48, "max_position_embeddings": 8, "pad_token_id": V, "bos_token_id": V}
    return MusicgenDecoderConfig(**{**sizes, **specials, **changes})


def redraw(model: torch.nn.Module) -> None:
    """Make weights so large that a swapped or missing one shows in the logits."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)


def make_bare(directory: Path) -> Path:
    model = MusicgenForCausalLM(decoder_config())
    redraw(model)
    model.save_pretrained(directory)
    return directory


def make_whole(directory: Path, text_width: int = TEXT) -> Path:
    text = T5Config(vocab_size=20, d_model=text_width, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
    codec = EncodecConfig(
        num_filters=2,
        hidden_size=8,
        codebook_size=V,
        upsampling_ratios=[4, 2],
        num_lstm_layers=1,
        sampling_rate=16000,
        target_bandwidths=[16.0],
    )
    model = MusicgenForConditionalGeneration(
        MusicgenConfig(text_encoder=text, audio_encoder=codec, decoder=decoder_config())
    )
    redraw(model)
    model.save_pretrained(directory)
    (directory / "tokenizer_config.json").write_text("{}")
    return directory


def their_logits(directory: Path, tokens: Tensor, text: Tensor | None) -> Tensor:
    """Run transformers' module; a whole model with text, a bare one without."""
    rows = tokens.reshape(-1, tokens.shape[2])
    with torch.no_grad():
        if text is None:
            logits = MusicgenForCausalLM.from_pretrained(directory)(rows).logits
        else:
            whole = MusicgenForConditionalGeneration.from_pretrained(directory)
            encoded = BaseModelOutput(last_hidden_state=text)
            logits = whole(encoder_outputs=encoded, attention_mask=MASK, decoder_input_ids=rows).logits
    return logits.view(len(tokens), K, -1, V)


def our_logits(loaded: LoadedMusicgen, tokens: Tensor, text: Tensor | None) -> Tensor:
    conditions = Conditions.none()
    if text is not None:
        weights = loaded.text_projection
        projected = text if weights is None else F.linear(text, weights["weight"], weights["bias"])
        conditions = Conditions(cross=projected, cross_mask=MASK.bool())
    with torch.no_grad():
        return loaded.model(tokens, conditions)
