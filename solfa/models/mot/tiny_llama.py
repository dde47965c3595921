"""A random Llama small enough for tests, with Llama 3's RoPE scaling and a byte tokenizer: the base `//tiny`."""

from importlib import import_module
from typing import Any

import torch
from torch import nn

TINY = "//tiny"

_SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
_SCALING = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_SPECIALS = ("<pad>", "<bos>", "<eos>")


def tiny_llama(**changes: Any) -> nn.Module:
    """Draw the weights, the same ones every time."""
    transformers: Any = import_module("transformers")
    config = transformers.LlamaConfig(
        **{
            "vocab_size": 256 + len(_SPECIALS),
            "max_position_embeddings": 512,
            "rope_parameters": dict(_SCALING),
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            **_SIZES,
            **changes,
        }
    )
    config._attn_implementation = "sdpa"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model: nn.Module = transformers.LlamaForCausalLM(config)
        for parameter in model.parameters():
            # Larger than Llama's own initialisation, so that every weight affects the logits.
            nn.init.normal_(parameter, mean=float(parameter.ndim == 1), std=0.2)
    return model.eval()


def tiny_tokenizer() -> Any:
    """Make a tokenizer whose tokens are bytes, starting each text with `<bos>`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    transformers: Any = import_module("transformers")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([*_SPECIALS, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    pad, bos, eos = _SPECIALS
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=pad, bos_token=bos, eos_token=eos)
