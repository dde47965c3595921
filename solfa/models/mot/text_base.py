"""The frozen text model: loaded once, never trained, never stored, never a submodule of what is trained.

Only an adapter changes that: then it is a part of the network that the adapter is on, and still not stored.

Its own forward pass handles all text. Audio needs its layers' projections, its rotary angles (with whatever scaling its
config sets), and the keys and values it stores for a text.
"""

import logging
import struct
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr
from functools import cached_property
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int64
from safetensors import SafetensorError
from torch import Tensor, nn

from solfa.errors import ConfigError
from solfa.files.digest import file_sha256, value_sha256
from solfa.models.mot.tiny_llama import TINY, tiny_llama, tiny_tokenizer
from solfa.nn.positions import Rotation
from solfa.pretrained.account import check_loaded
from solfa.pretrained.directory import named_files
from solfa.pretrained.hub import local_directory, quiet_loading

logger = logging.getLogger(__name__)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class BaseSizes(NamedTuple):
    """The sizes of a Llama that its audio experts are built from."""

    dim: int
    num_layers: int
    num_heads: int
    num_key_value_heads: int
    head_dim: int
    ffn_dim: int
    vocabulary: int
    norm_eps: float
    attention_bias: bool
    mlp_bias: bool


class FrozenLM:
    """A text model that is used but never trained, unless through an adapter.

    Deliberately not a module, so that its weights are in nobody's state dict or parameters.
    """

    def __init__(self, model: nn.Module, tokenizer: Any, fingerprint: str, location: str) -> None:
        self.model: Any = model.eval().requires_grad_(False)
        self.tokenizer, self.fingerprint, self.location = tokenizer, fingerprint, location
        self.sizes = _sizes(model.config, location)
        self.is_adapted = False
        """Whether an adapter changes what it makes of a text."""
        self._reported = False

    @property
    def layers(self) -> nn.ModuleList:
        """The decoder layers, each with `input_layernorm`, `self_attn`, `post_attention_layernorm` and `mlp`."""
        layers: nn.ModuleList = self.model.model.layers
        return layers

    @property
    def device(self) -> torch.device:
        device: torch.device = self.model.model.embed_tokens.weight.device
        return device

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.model.embed_tokens.weight.dtype
        return dtype

    @cached_property
    def embedding_std(self) -> float:
        """The standard deviation of its token embeddings."""
        return float(self.model.model.embed_tokens.weight.float().std())

    @cached_property
    def output_std(self) -> float:
        """The standard deviation of the rows of its output head."""
        return float(self.model.lm_head.weight.float().std())

    def tokenize(self, text: str, max_tokens: int) -> list[int]:
        """Return the ids of a text with the special tokens that the tokenizer adds; a long text is cut.

        No chat template is applied.
        """
        ids: list[int] = self.tokenizer(text, verbose=False)["input_ids"]
        if len(ids) > max_tokens and not self._reported:
            self._reported = True
            logger.warning("texts longer than %d tokens are cut, first %.60r", max_tokens, text)
        return ids[:max_tokens]

    def embed(self, ids: Int64[Tensor, "*places"]) -> Float[Tensor, "*places D"]:
        """Embed text tokens."""
        embedded: Tensor = self.model.model.embed_tokens(ids)
        return embedded

    def rotation(self, x: Float[Tensor, "..."], positions: Int64[Tensor, "B S"]) -> Rotation:
        """Compute the angles of positions as the base does, with its scaling, in the precision of `x`."""
        cos, sin = self.model.model.rotary_emb(x, positions)
        return Rotation(cos, sin)

    def logits(self, ids: Int64[Tensor, "B L"]) -> Float[Tensor, "B L V"]:
        """Predict text with the base's own head."""
        with torch.no_grad():
            logits: Tensor = self.model(input_ids=ids.to(self.device), use_cache=False).logits
        return logits

    def answer(self, text: str, max_new_tokens: int = 64) -> str:
        """Continue a text greedily."""
        read = self.tokenize(text, self.model.config.max_position_embeddings)
        if not read:
            raise ConfigError(
                "text: expected a text to continue, found an empty one, and this base adds no start token"
            )
        ids = torch.tensor([read], device=self.device)
        with torch.no_grad():
            told = self.model.generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_new_tokens, do_sample=False
            )
        answered: str = self.tokenizer.decode(told[0, ids.shape[1] :], skip_special_tokens=True)
        return answered

    @torch.no_grad()
    def keys_and_values(self, ids: Sequence[int]) -> Float[Tensor, "parts H L E"]:
        """Run one text and return what every layer stores for it: all keys, then all values, already rotated.

        One text at a time: in a batch, its last bits would depend on the others, and a resumed run would differ.
        """
        sizes = self.sizes
        if not ids:
            weight: Tensor = self.model.model.embed_tokens.weight
            return weight.new_zeros(2 * sizes.num_layers, sizes.num_key_value_heads, 0, sizes.head_dim)
        row = torch.tensor([list(ids)], device=self.device)
        with torch.autocast(self.device.type, enabled=False):
            kept = self.model.model(input_ids=row, use_cache=True).past_key_values
        keys = [layer.keys[0] for layer in kept.layers]
        values = [layer.values[0] for layer in kept.layers]
        return torch.stack([*keys, *values])


def through(part: nn.Module, x: Float[Tensor, "*places I"]) -> Float[Tensor, "*places O"]:
    """Run one of the base's projections on audio, in the precision of its weights."""
    dtype: Any = part.weight.dtype
    alike = x.dtype == dtype or torch.is_autocast_enabled(x.device.type)
    read: Tensor = part(x) if alike else part(x.to(dtype)).to(x.dtype)
    return read


def load_base(location: str, dtype: str = "float32") -> FrozenLM:
    """Load a causal language model with the Llama architecture and its tokenizer, every weight accounted for.

    >>> from solfa.models import load_base
    >>> base = load_base("//tiny")
    >>> base.sizes.num_layers, base.tokenize("a bell", max_tokens=8)
    (3, [1, 67, 223, 68, 71, 78, 78])
    """
    if location == TINY:
        return FrozenLM(tiny_llama().to(DTYPES[dtype]), tiny_tokenizer(), value_sha256(TINY), location)
    path = Path(location).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ConfigError(f"base {location}: no such file")
        model, tokenizer = _read(path.parent, DTYPES[dtype], location, gguf_file=path.name)
        return FrozenLM(model, tokenizer, file_sha256(path), location)
    directory = local_directory(location, what="base")
    model, tokenizer = _read(directory, DTYPES[dtype], location)
    fingerprint = value_sha256({file.name: file_sha256(file) for file in named_files(directory)})
    return FrozenLM(model, tokenizer, fingerprint, location)


def _read(directory: Path, dtype: torch.dtype, location: str, **where: str) -> tuple[nn.Module, Any]:
    transformers: Any = import_module("transformers")
    with _told(location):
        config = transformers.AutoConfig.from_pretrained(directory, **where)
    if config.model_type != "llama":
        raise ConfigError(
            f"base {location}: expected a model with the Llama architecture (model_type llama), found "
            f"{config.model_type}; use e.g. Llama 2, Llama 3 or SmolLM2"
        )
    # Loading may draw random numbers, which must not affect the run's own. The GGUF reader shows a progress bar that
    # cannot be switched off, so output is swallowed; errors are exceptions and get through.
    bar: AbstractContextManager[object] = redirect_stderr(StringIO()) if where else nullcontext()
    with _told(location), quiet_loading(), torch.random.fork_rng(devices=[]), bar:
        model, info = transformers.LlamaForCausalLM.from_pretrained(
            directory,
            config=config,
            dtype=dtype,
            attn_implementation="sdpa",
            # Wrong shapes are reported by name like missing tensors, instead of raised without one.
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **where,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(directory, **where)
    # Old files contain the rotary frequencies, which are computed here.
    check_loaded(info, f"base {location}", is_spare=lambda name: name.endswith("inv_freq"))
    _check_finite(model, location)
    return model, tokenizer


@contextmanager
def _told(location: str) -> Iterator[None]:
    """Say in one sentence what transformers could not read; it raises all of these for broken files."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, struct.error, SafetensorError) as error:
        hint = "; to read GGUF, run pip install 'solfa[gguf]'" if isinstance(error, ImportError) else ""
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ConfigError(
            f"base {location}: not readable as a language model with a tokenizer ({reason}){hint}"
        ) from error


def _check_finite(model: nn.Module, location: str) -> None:
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise ConfigError(
                f"base {location}: expected finite weights, found NaN or infinity in {name}; the file is broken"
            )


def _sizes(config: Any, location: str) -> BaseSizes:
    if config.hidden_act != "silu":
        raise ConfigError(f"base {location}: expected the activation silu, found {config.hidden_act}")
    return BaseSizes(
        dim=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=config.head_dim,
        ffn_dim=config.intermediate_size,
        vocabulary=config.vocab_size,
        norm_eps=config.rms_norm_eps,
        attention_bias=config.attention_bias,
        mlp_bias=config.mlp_bias,
    )
