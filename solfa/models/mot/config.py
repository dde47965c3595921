"""The parts of a Mixture-of-Transformers: the base, the donor, and the kinds of audio experts."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from solfa.models.lm.codes_shape import CodesShape
from solfa.models.mot.attention_experts import AttentionKind, LoraAttention
from solfa.models.mot.ffn_experts import Bridge, FFNKind
from solfa.ops.patterns import Delay, Flat, Parallel


class OneVocabulary(Flat):
    """One code per step, as ids after those of the text: audio extends the base's vocabulary."""

    ids: Literal["shared", "offset"] = "offset"
    """All codebooks share `codebook_size` ids, or each has its own (codebook k starts at k * codebook_size)."""


Layout = Annotated[Parallel | Delay | OneVocabulary, Field(discriminator="kind")]


class MoTConfig(CodesShape):
    """A text model, what its audio experts are, and where they come from."""

    base: str
    """A causal language model with the Llama architecture: a directory, a Hub id, or a `.gguf` file; `//tiny` is a
    small random one, made on the spot."""
    base_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """The precision of the base's weights in memory."""
    donor: str | None = None
    """A MusicGen checkpoint (directory or Hub id) to take feed-forward layers, tables and heads from; None for none."""
    train_donor: bool = False
    """Train the donor's weights, too. Frozen weights are not in the checkpoint."""
    layout: Layout = Delay()
    attention: AttentionKind = LoraAttention()
    ffn: FFNKind = Bridge()
    prefix_graph: bool = False
    """Run text and audio as one sequence, keeping the graph of the text: the same gradients, but slower."""
    checkpoint_layers: bool = False
    """Recompute the audio layers in the backward pass instead of keeping their activations."""

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> "MoTConfig":
        if self.train_donor and self.donor is None:
            raise ValueError("train_donor: needs a donor, found none; set donor, or leave it out")
        if self.prefix_graph and self.checkpoint_layers:
            raise ValueError(
                "checkpoint_layers: does not work with prefix_graph, which keeps everything; choose one of them"
            )
        return self
