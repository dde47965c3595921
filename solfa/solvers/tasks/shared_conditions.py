"""What the tasks with conditioners share: the columns they need, the conditions of a batch, and clips to generate."""

import logging
from collections.abc import Mapping
from typing import Any

from solfa.config import nearest
from solfa.data.attributes import CAPTION, attribute_rows, drop_attributes
from solfa.data.batching.collation import Batch
from solfa.data.batching.stage_batches import Batching, PackRows
from solfa.data.sources.columns import STORED_COLUMNS
from solfa.data.sources.stage_source import OpenedSource
from solfa.data.stable_random import stable_key
from solfa.errors import ConfigError
from solfa.generate.request import ClipRequest
from solfa.models.conditioners.protocol import SpellsTokens
from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig

logger = logging.getLogger(__name__)


def expect_columns(sources: Mapping[str, str], data: OpenedSource) -> None:
    """Refuse a condition on a column that no clip has, and warn if it is on captions and there are none."""
    known = data.column_names() - {*STORED_COLUMNS}
    for name, column in sources.items():
        if column == CAPTION and not any(data.values(CAPTION)):
            logger.warning("conditioner %s: no training clip has a caption, so the model cannot learn from it", name)
        if column in STORED_COLUMNS or column in known:
            continue
        there = f"the dataset has {', '.join(sorted(known))}" if known else "the dataset has no metadata columns"
        key = f"conditioner.conditioners.{name}.source"
        raise ConfigError(
            f"{key}: expected a column of the dataset, found {column!r}{nearest(column, known)}; {there}; choose one "
            f"with {key}=COLUMN, or train without this condition"
        )


def refuse_packing(dataset: Batching | None) -> None:
    """Refuse packed rows, in which each clip has its own caption."""
    if dataset is not None and isinstance(dataset.mode, PackRows):
        raise ConfigError("dataset.mode: packed rows hold several clips, each with its own caption; use crop or pad")


def condition_rows(config: ConditionsConfig, batch: Batch, seed: int, *, drops: bool) -> list[dict[str, Any]]:
    """Collect the attributes of a batch; if it `drops`, some are missing, as guidance needs it."""
    rows = attribute_rows(batch.captions, batch.metadata, config.sources)
    if not drops:
        return rows
    return drop_attributes(
        rows,
        batch.ids,
        guidance_dropout=config.guidance_dropout,
        dropouts=config.dropouts,
        seed=seed,
        epoch=batch.epoch,
    )


def spelled_conditions(config: ConditionsConfig, conditioners: ConditionerSet, batch: Batch) -> list[dict[str, str]]:
    """Write the conditions of a batch as the conditioners read them."""
    spelled = []
    for row in attribute_rows(batch.captions, batch.metadata, config.sources):
        parts = ((name, value, conditioners.conditioners[name]) for name, value in row.items() if value is not None)
        spelled.append(
            {name: part.spell(value) if isinstance(part, SpellsTokens) else str(value) for name, value, part in parts}
        )
    return spelled


def described_requests(
    source: OpenedSource, num_clips: int, seconds: float, columns: Mapping[str, str], seed: int
) -> list[ClipRequest]:
    """Request clips described like the first ones of a dataset; `columns` say where their attributes come from.

    They are the same in every epoch, so that what differs between epochs is what training changed.
    """
    requests = []
    for index in range(min(num_clips, len(source))):
        clip = source[index]
        (attributes,) = attribute_rows([clip.caption], [clip.metadata], columns)
        drawn_by = stable_key("generate", seed, clip.id) % 2**63
        requests.append(ClipRequest(f"{index:03d}", seconds, drawn_by, conditions=attributes))
    return requests
