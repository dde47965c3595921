"""Write a fine-tuned language model as a MusicGen checkpoint that transformers can load."""

from pathlib import Path

from solfa.errors import ConfigError
from solfa.models.conditioners.text import TextConditioner
from solfa.models.lm.conditioned import ConditionedLM
from solfa.models.lm.musicgen import load_musicgen, save_musicgen


def export_musicgen(network: ConditionedLM, directory: Path, source: str | None = None) -> str:
    """Write the decoder alone, or with the rest of `source`, which it was tuned from; say what was written."""
    has_projection = source is not None and load_musicgen(source).text_projection is not None
    projection = text_conditioner(network, str(source)).output_proj.state_dict() if has_projection else None
    save_musicgen(network.lm, directory, source=source, text_projection=projection)
    return "a MusicgenForCausalLM" if source is None else f"a MusicGen model with the other parts of {source}"


def text_conditioner(network: ConditionedLM, location: str) -> TextConditioner:
    """Find the one text conditioner that a MusicGen checkpoint fits."""
    parts = network.conditioners.conditioners.values()
    found = [part for part in parts if isinstance(part, TextConditioner)]
    if len(found) != 1:
        raise ConfigError(
            f"{location}: this checkpoint is conditioned on text and needs one text conditioner, "
            f"found {len(found)}; choose conditioner=text"
        )
    return found[0]
