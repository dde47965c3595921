"""A frozen pretrained text encoder: never trained, never stored, loaded when its first text comes.

It comes from a local directory written by `save_pretrained`, or from a Hub id. Of the T5 family, only the encoder runs;
a MusicGen checkpoint provides the T5 inside it; anything else is left to transformers' auto classes.

Texts are encoded one at a time. A batch would pad them, and even if an encoder masks its padding, the last bits depend
on the batch; one by one, a text always has the same embedding, so a resumed run continues exactly.
"""

import logging
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.files.digest import file_sha256, value_sha256
from solfa.pretrained.account import check_accounted
from solfa.pretrained.directory import named_files
from solfa.pretrained.hub import TEXT_MODEL, local_directory, quiet_loading

logger = logging.getLogger(__name__)

_NO_LIMIT = 10**9
"""Tokenizers without a maximum length say 1e30."""


class FrozenTextEncoder:
    """Deliberately not a module, so that its weights are in nobody's state dict or parameters."""

    def __init__(self, encoder: str, max_tokens: int) -> None:
        self.encoder = encoder
        self.directory = local_directory(encoder, what="text encoder", wanted=TEXT_MODEL)
        self._config = _read_config(encoder, self.directory)
        self._max_tokens = max_tokens
        self._reported = False

    @property
    def width(self) -> int:
        """The size of a token's hidden state."""
        return int(self._text_config.hidden_size)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the files that determine the embeddings: weights, config and tokenizer."""
        return value_sha256({path.name: file_sha256(path) for path in named_files(self.directory)})

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Return each text's token ids, without padding; a text that is too long is cut, with a warning."""
        if not texts:
            return []
        whole: list[list[int]] = self._tokenizer(list(texts), verbose=False)["input_ids"]
        limit = self._limit
        if max(map(len, whole)) <= limit:
            return whole
        if not self._reported:
            self._reported = True
            longest = max(range(len(whole)), key=lambda index: len(whole[index]))
            logger.warning(
                "texts longer than %d tokens are cut, for example the %d tokens of %.60r",
                limit,
                len(whole[longest]),
                texts[longest],
            )
        cut: list[list[int]] = self._tokenizer(list(texts), truncation=True, max_length=limit)["input_ids"]
        return cut

    def spell(self, text: str) -> str:
        """Write a text as its tokens."""
        (ids,) = self.tokenize([text])
        return " ".join(map(str, self._tokenizer.convert_ids_to_tokens(ids)))

    @torch.no_grad()
    def encode(self, ids: Sequence[int], device: torch.device) -> Float[Tensor, "L W"]:
        """Compute the hidden states of one text in float32."""
        model = self._model.to(device)
        row = torch.tensor([list(ids)], device=device)
        with torch.autocast(device.type, enabled=False):
            hidden: Tensor = model(input_ids=row, attention_mask=torch.ones_like(row)).last_hidden_state[0]
        return hidden

    def save_parts(self, encoder: Path, tokenizer: Path, max_tokens: int | None) -> tuple[str, str]:
        """Write the model and its tokenizer, for texts of at most so many tokens; return the names of their classes."""
        model: Any = self._model
        model.save_pretrained(encoder)
        words = copy(self._tokenizer)
        words.model_max_length = max_tokens or words.model_max_length
        words.save_pretrained(tokenizer)
        return type(model).__name__, type(words).__name__

    @property
    def _text_config(self) -> Any:
        return self._config.text_encoder if _is_musicgen(self._config) else self._config.get_text_config(encoder=True)

    @property
    def _limit(self) -> int:
        positions = getattr(self._text_config, "max_position_embeddings", None) or _NO_LIMIT
        return min(self._max_tokens, int(min(self._tokenizer.model_max_length, _NO_LIMIT)), positions)

    @cached_property
    def _tokenizer(self) -> Any:
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self.directory)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"text encoder {self.encoder}: {self.directory} has no readable tokenizer "
                f"({str(error).splitlines()[0]}); save one there with tokenizer.save_pretrained"
            ) from error

    @cached_property
    def _model(self) -> nn.Module:
        # Loading may draw random numbers, and whether it happens depends on what is in the cache.
        with torch.random.fork_rng(devices=[]):
            model = _load(self.encoder, self.directory, self._config)
        return model.eval().requires_grad_(False)


def _is_musicgen(config: Any) -> bool:
    return config.model_type in {"musicgen", "musicgen_melody"}


def _read_config(encoder: str, directory: Path) -> Any:
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(directory)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"text encoder {encoder}: {directory} has no config that transformers can read "
            f"({str(error).splitlines()[0]}); expected a directory written by save_pretrained"
        ) from error


def _load(encoder: str, directory: Path, config: Any) -> nn.Module:
    """Read the weights in float32 and refuse an encoder if any are missing."""
    from transformers import AutoModel, AutoModelForTextEncoding

    options: dict[str, Any] = {"dtype": torch.float32, "output_loading_info": True}
    inner = config
    if _is_musicgen(config):
        inner = config.text_encoder
        options["key_mapping"] = {r"^text_encoder\.": ""}
    known = type(inner) in AutoModelForTextEncoding._model_mapping
    try:
        with quiet_loading():
            model, info = (AutoModelForTextEncoding if known else AutoModel).from_pretrained(
                directory, config=inner, **options
            )
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"text encoder {encoder}: its weights could not be read from {directory} ({str(error).splitlines()[0]})"
        ) from error
    # A pooler comes after the hidden states, and checkpoints of masked language models have none.
    missing = [name for name in info["missing_keys"] if not name.startswith("pooler.")]
    check_accounted(missing, (), (), f"text encoder {encoder}: {directory}")
    loaded: nn.Module = model.get_encoder() if getattr(inner, "is_encoder_decoder", False) and not known else model
    return loaded
