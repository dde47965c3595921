"""Whether a model remembers its training clips: the nearest of them to each clip that it generates."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from solfa.codecs.protocol import Codec
from solfa.errors import SolfaError
from solfa.evaluate.copies import Sounds
from solfa.evaluate.evaluation import ClipScore
from solfa.generate.training_copies import training_data, training_finder

log = logging.getLogger(__name__)


def with_nearest(
    clips: Iterable[ClipScore],
    experiment: Path,
    codec: Codec,
    sounds: Sounds,
    on_clip: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[ClipScore, ...]:
    """Name the nearest training clip in the facts of each clip, if what was trained on is known and here."""
    try:
        datasets = training_data(experiment)
    except SolfaError as error:  # an exported model, or data that is gone
        log.warning("whether clips repeat training clips is not known: %s", error)
        return tuple(clips)
    finder = training_finder(datasets, codec, on_clip)
    named = []
    for clip in clips:
        nearest = finder.nearest(*sounds.read(clip.id))
        found = None if nearest is None else {"is_copy": nearest.is_copy, **nearest._asdict()}
        named.append(replace(clip, facts={**clip.facts, "nearest": found}))
    return tuple(named)
