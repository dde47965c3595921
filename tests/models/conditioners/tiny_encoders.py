"""Tiny random text encoders, written as transformers writes them, each with a tokenizer of a few words."""

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForMaskedLM,
    EncodecConfig,
    MusicgenConfig,
    MusicgenDecoderConfig,
    MusicgenForConditionalGeneration,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

from solfa.models.conditioners.text import TextConditioner

WIDTH = 24
WORDS = ["a", "the", "loud", "soft", "slow", "fast", "drum", "guitar", "piano", "song", "of", "rain", "with", "dark"]
T5 = {"vocab_size": 32, "d_model": WIDTH, "d_kv": 6, "d_ff": 32, "num_layers": 2, "num_heads": 4}
BERT = {
    "vocab_size": 32,
    "hidden_size": WIDTH,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 12,
}


def write_t5(directory: Path, seed: int = 0, width: int = WIDTH) -> Path:
    torch.manual_seed(seed)
    T5EncoderModel(T5Config(**{**T5, "d_model": width})).save_pretrained(directory)
    _write_tokenizer(directory, ["<pad>", "<unk>", "</s>"], "$A </s>")
    return directory


def write_bert(directory: Path, seed: int = 0) -> Path:
    """A masked language model: it has a head that is not used here, and no pooler."""
    torch.manual_seed(seed)
    BertForMaskedLM(BertConfig(**BERT)).save_pretrained(directory)
    _write_tokenizer(directory, ["[PAD]", "[UNK]", "[CLS]", "[SEP]"], "[CLS] $A [SEP]")
    return directory


def write_musicgen(directory: Path) -> Path:
    torch.manual_seed(0)
    config = MusicgenConfig(
        text_encoder=T5Config(**T5).to_dict(),
        audio_encoder=EncodecConfig(
            hidden_size=8, num_filters=2, num_residual_layers=1, upsampling_ratios=[2, 2], codebook_size=16
        ).to_dict(),
        decoder=MusicgenDecoderConfig(
            vocab_size=16,
            hidden_size=16,
            num_hidden_layers=1,
            ffn_dim=16,
            num_attention_heads=2,
            num_codebooks=2,
            pad_token_id=16,
            bos_token_id=16,
        ).to_dict(),
    )
    MusicgenForConditionalGeneration(config).save_pretrained(directory)
    _write_tokenizer(directory, ["<pad>", "<unk>", "</s>"], "$A </s>")
    return directory


def _write_tokenizer(directory: Path, specials: list[str], template: str) -> None:
    vocabulary = {word: index for index, word in enumerate([*specials, *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=specials[1]))
    tokenizer.pre_tokenizer = Whitespace()
    used = [(word, vocabulary[word]) for word in template.split() if word != "$A"]
    tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=used)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=specials[0], unk_token=specials[1]).save_pretrained(
        directory
    )


def encoded_lengths(conditioner: TextConditioner) -> list[int]:
    """Collect the lengths of the texts that the real encoder is given from now on; it is loaded for the first one."""
    lengths: list[int] = []
    encode = conditioner.encoder.encode

    def noted(ids: Sequence[int], device: torch.device) -> torch.Tensor:
        lengths.append(len(ids))
        return encode(ids, device)

    conditioner.encoder.encode = noted  # type: ignore[method-assign]
    return lengths
