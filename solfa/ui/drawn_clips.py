"""Draw clips with a trained model and write them: what `solfa generate` and the studio do, without their displays.

Both go through here, so that the same request and seed are the same bytes on disk.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from solfa.errors import ConfigError
from solfa.files.id_names import flat_name
from solfa.generate.generator import OnStep
from solfa.generate.model import Model
from solfa.generate.request import ClipRequest
from solfa.generate.stream import DrawsSamples
from solfa.ui.clip_files import write_sample
from solfa.ui.partial_clips import PartialSamples


def draw_and_write(
    model: Model,
    requests: Sequence[ClipRequest],
    options: Mapping[str, Any],
    out: Path,
    extension: str,
    on_progress: OnStep,
    partial: PartialSamples | None = None,
) -> Iterator[str]:
    """Draw clips and write each to `out` as soon as it is complete; yield the names of their files.

    With `partial`, whose folder is `out`, clips can be heard while they are drawn. What the model cannot do is refused
    at once, before the first clip is asked for.
    """
    clips = model.draw(
        requests, on_progress=on_progress, on_audio=None if partial is None else partial.append, **options
    )

    def written() -> Iterator[str]:
        for clip in clips:
            if partial is None:
                write_sample(clip, out, extension, model.provenance)
            else:
                partial.complete(clip, extension)
            yield flat_name(clip.file_name)

    return written()


def refuse_semantics(model: Model, semantics: str | None) -> None:
    """Refuse a kind of temperature that a model's head does not have."""
    generator = model.generator
    kinds = generator.temperature_kinds if isinstance(generator, DrawsSamples) else ()
    if semantics is None or semantics in kinds:
        return
    name = model.trained.solver
    known = f"this model only supports {kinds[0]}" if kinds else f"models of the {name} solver have only one kind"
    raise ConfigError(f"`semantics`: {known}, found {semantics}; leave it out")
