"""A frozen text model with audio experts: text goes through the base itself, audio through experts that attend to it.

    caption ──► base, no graph ──► keys and values of every layer ──┐ (kept per caption)
    start, codes ──► audio vocabulary ──► audio layers, which attend to these and to each other ──► logits of codes

Text comes before audio and never sees it, so text needs nothing but the base's own forward pass: the base's answers to
text cannot change. No keys are kept from one training step to the next; generation passes in its own cache.
`forward_joint` runs text and audio as one sequence, for any order of both.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from solfa.errors import ConfigError
from solfa.models.lm.network import CodecLM, inputs_and_targets
from solfa.models.mot.config import MoTConfig
from solfa.models.mot.joint import MixedSequence, run_jointly, text_then_audio
from solfa.models.mot.layers import AudioLayer, spread
from solfa.models.mot.ledger import Ledger, load_like
from solfa.models.mot.llama_attention import attended, mask_after, rotated
from solfa.models.mot.prefix import TextIds, TextPrefix
from solfa.models.mot.routing import Parts, SliceRouting
from solfa.models.mot.text_base import FrozenLM
from solfa.models.mot.vocabulary import AudioVocabulary
from solfa.nn.key_value_cache import KeyValueCache
from solfa.nn.positions import Rotation
from solfa.ops.patterns import steps_of


class Donor(NamedTuple):
    """A MusicGen decoder that provides weights, and the hash of its files."""

    model: CodecLM
    fingerprint: str


class MoT(nn.Module):
    """A Mixture-of-Transformers: audio experts next to a text model.

    It refers to the text model but does not contain it: neither in its parameters nor in its state.
    """

    def __init__(self, config: MoTConfig, base: FrozenLM, donor: Donor | None = None) -> None:
        super().__init__()
        self.config, self.base = config, base
        self.num_codebooks, self.codebook_size = config.codes_shape
        config.layout.layout(self.num_codebooks, 1)  # refuses delays for another number of codebooks right away
        self.donor_fingerprint = None if donor is None else donor.fingerprint
        lm = None if donor is None else donor.model
        donated = lm if lm is not None and _tables_fit(lm, config) else None
        sizes = base.sizes
        sources = [
            None if lm is None else spread(index, sizes.num_layers, lm.config.num_layers)
            for index in range(sizes.num_layers)
        ]
        given = [None if lm is None or source is None else lm.transformer.layers[source] for source in sources]
        self.layers = nn.ModuleList(
            AudioLayer(sizes, config.attention, config.ffn, layer)  # type: ignore[arg-type]
            for layer in given
        )
        self.norm = nn.RMSNorm(sizes.dim, sizes.norm_eps)
        self.takes_tables = donated is not None
        """Whether tables and heads are the donor's."""
        width = None if donated is None else donated.config.dim
        self.vocabulary = AudioVocabulary(config.layout, *config.codes_shape, sizes.dim, width)

        ledger = Ledger(self)
        for index, (layer, source) in enumerate(zip(self.layers, sources, strict=True)):
            assert isinstance(layer, AudioLayer)
            own, where = base.layers[index], f"base layers.{index}"
            layer.init_from(own, ledger, where, given[index], f"donor layers.{source}")  # type: ignore[arg-type]
            if lm is not None and not config.train_donor:
                layer.freeze_donated()
        load_like(self.norm, base.model.model.norm, ledger, "base norm")
        self.vocabulary.init_from(base, ledger, donated)
        if donated is not None and not config.train_donor:
            self.vocabulary.freeze_donated()
        self.report = ledger.close("MoT")
        self.register_state_dict_post_hook(_leave_out_frozen)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_refuse_frozen)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(_forgive_frozen)  # type: ignore[no-untyped-call]

    @property
    def device(self) -> torch.device:
        return self.norm.weight.device

    @property
    def special(self) -> int:
        """The id of the token where there is no code."""
        return self.codebook_size

    def layout(self, num_frames: int) -> Int64[Tensor, "K S"]:
        """Return which frame each codebook has at each step of a clip."""
        return self.config.layout.layout(self.num_codebooks, num_frames).to(self.device)

    def forward(
        self, codes: Int64[Tensor, "B K T"], mask: Bool[Tensor, "B T"], text: TextPrefix | TextIds
    ) -> Float[Tensor, "B K T V"]:
        """Return the logits of every code, given those laid out before it and the text.

        For texts given as ids, their graph is kept, too: the same gradients with more work.
        """
        layout = self.layout(codes.shape[2])
        inputs = inputs_and_targets(codes, mask, layout, self.special).inputs
        if isinstance(text, TextPrefix):
            hidden = self.hidden(inputs, text)
        else:
            parts = self.forward_joint(text_then_audio(text.ids, text.lengths, inputs))
            # What text alone reads adds nothing; but processes wait for the gradient of every adapted layer.
            hidden = parts.audio + 0.0 * parts.text.sum() if self.base.is_adapted else parts.audio
        return self.vocabulary.frame_logits(hidden, steps_of(layout, codes.shape[2]))

    def open_to_adapters(self) -> nn.Module:
        """Let adapters into the text model; what it made of texts before no longer counts."""
        self.base.is_adapted = True
        return self.base.model  # type: ignore[no-any-return]

    def forward_joint(self, sequence: MixedSequence) -> Parts:
        """Run text and audio in any order as one sequence; return what the heads of each kind read."""
        audio = self.vocabulary.embed(sequence.audio)
        embedded = Parts(
            self.base.embed(sequence.text), audio if isinstance(sequence.routing, SliceRouting) else audio[0]
        )
        text, audio = run_jointly(self.base, self.layers, embedded, sequence)
        return Parts(self.base.model.model.norm(text), self.norm(audio))

    def text_logits(self, hidden: Float[Tensor, "*texts D"]) -> Float[Tensor, "*texts V"]:
        """Predict text with the base's own head."""
        logits: Tensor = self.base.model.lm_head(hidden)
        return logits

    def hidden(
        self, tokens: Int64[Tensor, "B K S"], prefix: TextPrefix, cache: KeyValueCache | None = None
    ) -> Float[Tensor, "B S D"]:
        """Return what the heads read; with a cache, `tokens` are only the new steps; the first call stores the text."""
        if cache is not None and cache.position == 0 and prefix.num_steps:
            for index in range(len(self.layers)):
                cache.append(index, prefix.keys[index], prefix.values[index])
            cache.advance(prefix.num_steps)
        done = 0 if cache is None else cache.position - prefix.num_steps
        num_new = tokens.shape[2]
        x = self.vocabulary.embed(tokens)
        steps = torch.arange(done, done + num_new, device=x.device)
        angles = self.base.rotation(x, prefix.lengths[:, None] + steps)
        mask = mask_after(num_new, done + num_new, prefix.mask, prefix.num_steps, x.device)
        for index, layer in enumerate(self.layers):
            if self.config.checkpoint_layers and torch.is_grad_enabled() and cache is None:
                x = checkpoint(self._layer, x, index, layer, angles, mask, prefix, None, use_reentrant=False)
            else:
                x = self._layer(x, index, layer, angles, mask, prefix, cache)
        if cache is not None:
            cache.advance(num_new)
        normed: Tensor = self.norm(x)
        return normed

    def _layer(
        self,
        x: Float[Tensor, "B S D"],
        index: int,
        layer: nn.Module,
        angles: Rotation,
        mask: Bool[Tensor, "#B 1 S places"] | None,
        prefix: TextPrefix,
        cache: KeyValueCache | None,
    ) -> Float[Tensor, "B S D"]:
        assert isinstance(layer, AudioLayer)
        own = self.base.layers[index]
        queries, keys, values = rotated(layer.project(x, own), angles, self.base.sizes.head_dim)
        if cache is not None:
            keys, values = cache.append(index, keys, values)
        elif prefix.num_steps:
            keys = torch.cat([prefix.keys[index].to(keys.dtype), keys], dim=2)
            values = torch.cat([prefix.values[index].to(values.dtype), values], dim=2)
        return layer.finish(x, attended(queries, keys, values, mask), own)

    def logits(self, hidden: Float[Tensor, "B S D"]) -> Float[Tensor, "B K S V"]:
        """Apply the heads of all codebooks."""
        return self.vocabulary.logits(hidden)

    def new_cache(self, batch_size: int, max_steps: int) -> KeyValueCache:
        """Allocate keys and values for `max_steps` steps, including those of the text."""
        sizes, weight = self.base.sizes, self.norm.weight
        shape = sizes.num_layers, batch_size, sizes.num_key_value_heads, max_steps, sizes.head_dim
        return KeyValueCache(*shape, device=weight.device, dtype=weight.dtype)

    def get_extra_state(self) -> dict[str, str | None]:
        """Record which base and donor the weights belong to."""
        return {"base": self.base.fingerprint, "donor": self.donor_fingerprint}

    def set_extra_state(self, state: dict[str, str | None]) -> None:
        """Refuse weights that were trained with another base or donor."""
        for part, own in self.get_extra_state().items():
            if state[part] != own:
                raise ConfigError(
                    f"model.{part}: these weights were trained with the {part} {_short(state[part])}, found "
                    f"{_short(own)}; use the checkpoint they were trained with"
                )

    def _apply(self, fn: Any, recurse: bool = True) -> "MoT":
        # The base moves along with its experts although it is not part of them; its precision stays.
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.base.model.to(self.device)
        return self


def _tables_fit(donor: CodecLM, config: MoTConfig) -> bool:
    """Say whether a donor's tables and heads mean the same codes; one table for all codebooks cannot use them."""
    ids = getattr(config.layout, "ids", "offset")
    return (donor.num_codebooks, donor.codebook_size) == config.codes_shape and ids == "offset"


def _leave_out_frozen(module: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            state.pop(prefix + name, None)


def _refuse_frozen(module: nn.Module, state: dict[str, Any], prefix: str, *_: Any) -> None:
    # They would be loaded and used, but missing from the next checkpoint.
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad and prefix + name in state:
            raise ConfigError(
                f"model.train_donor: found {name} among the weights, but it is frozen here; set it to true, as before"
            )


def _forgive_frozen(module: nn.Module, found: Any) -> None:
    # Frozen weights come from the base and the donor, whose hashes were compared.
    frozen = {name for name, parameter in module.named_parameters() if not parameter.requires_grad}
    missing = [key for key in found.missing_keys if not any(key == name or key.endswith(f".{name}") for name in frozen)]
    found.missing_keys[:] = missing


def _short(fingerprint: str | None) -> str:
    return "none" if fingerprint is None else fingerprint[:12]
