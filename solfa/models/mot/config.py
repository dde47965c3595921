"""What a Mixture-of-Transformers is made of: the base, the donor, and the kinds of its audio experts."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from solfa.models.lm.codes_shape import CodesShape
from solfa.models.mot.attention_experts import AttentionKind, LoraAttention
from solfa.models.mot.ffn_experts import Bridge, FFNKind
from solfa.ops.patterns import Delay, Flat, Parallel


class OneVocabulary(Flat):
    """One code a step, as ids that follow those of the text: the base's vocabulary extended by the audio's."""

    ids: Literal["shared", "offset"] = "offset"
    """All codebooks share `codebook_size` ids, or each has its own (codebook k begins at k * codebook_size)."""


Layout = Annotated[Parallel | Delay | OneVocabulary, Field(discriminator="kind")]


class MoTConfig(CodesShape):
    """A text model, what its audio experts are, and where they come from."""

    base: str
    """A causal language model of the Llama architecture: a directory, a Hub id, a `.gguf` file; `//tiny` is a random
    one, made on the spot."""
    base_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """How the base's weights stand in memory."""
    donor: str | None = None
    """A MusicGen checkpoint, by directory or Hub id: gives feed-forward layers, tables and heads. None: fresh ones."""
    train_donor: bool = False
    """Train what came from the donor, too. What is frozen is not in the checkpoint."""
    layout: Layout = Delay()
    attention: AttentionKind = LoraAttention()
    ffn: FFNKind = Bridge()
    prefix_graph: bool = False
    """Run text and audio as one sequence, keeping the graph of the text: the same gradients, slower."""
    checkpoint_layers: bool = False
    """Compute the audio layers again in the backward pass instead of keeping their activations."""

    @model_validator(mode="after")
    def _nothing_is_ignored(self) -> "MoTConfig":
        if self.train_donor and self.donor is None:
            raise ValueError("train_donor: found true without a donor; name one, or leave it out")
        if self.prefix_graph and self.checkpoint_layers:
            raise ValueError("checkpoint_layers: found true with prefix_graph, which keeps everything; choose one")
        return self
