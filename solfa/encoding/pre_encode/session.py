"""Pre-encode a dataset config: decide what there is to do and who does it, then do this rank's share."""

import json
import os
import time
from pathlib import Path
from typing import Any

from solfa.codecs.catalogue import load_codec
from solfa.codecs.protocol import Codec
from solfa.encoding.fingerprint import array_spec
from solfa.encoding.placement import Encoders
from solfa.encoding.pre_encode.config import MIN_SAMPLE_SIZE, PreEncodeConfig, check_launch
from solfa.encoding.pre_encode.config_source import Collected, expect_recordings, open_collected
from solfa.encoding.pre_encode.item_json import ItemDescriber, make_details, model_config_of
from solfa.encoding.pre_encode.item_list import (
    check_capacity,
    freeze_list,
    list_path,
    new_recordings,
    read_lengths,
    refuse_strangers,
)
from solfa.encoding.pre_encode.item_metadata import ItemMetadata
from solfa.encoding.pre_encode.items import MAX_RANKS, Cut
from solfa.encoding.pre_encode.out_layout import SILENCE, at_work, claim_folder, read_details
from solfa.encoding.pre_encode.padded_batch import BatchEncoder
from solfa.encoding.pre_encode.rank_work import Work
from solfa.encoding.pre_encode.summary import PreEncodeReport
from solfa.encoding.progress import Listener, Silence
from solfa.encoding.read_ahead import Target
from solfa.encoding.shared_plan import plan_one_at_a_time
from solfa.environment.ranks import Rank, read_rank
from solfa.errors import ConfigError

MAX_SAMPLE_RATE = 1_000 * MIN_SAMPLE_SIZE
"""Above it, an item could be shorter than one sample of a recording of 1 kHz, the slowest that is read."""


def pre_encode(
    config: PreEncodeConfig, listener: Listener | None = None, *, trust_code: bool = False
) -> PreEncodeReport:
    """Write this rank's share of the layout; call it again to resume after an interruption.

    `trust_code` is not among the settings, which may come from a file of somebody else: it is for who starts the run.
    """
    listener = listener or Silence()
    rank = read_rank(os.environ)
    check_launch(config, rank)
    if rank.world_size > MAX_RANKS:
        raise ConfigError(
            f"WORLD_SIZE {rank.world_size}: expected at most {MAX_RANKS}: ids have three digits for the rank"
        )
    encoders = Encoders.choose("auto", 1, config.num_workers, os.environ)
    collected = open_collected(config.dataset_config, trust_code=trust_code)
    out = config.output_path
    if read_details(out) is None:
        expect_recordings(collected, config.dataset_config)
    codec = _load_codec(config, encoders.device_of(0))
    encoder = BatchEncoder(codec, encoders.device_of(0), config.sample_size, config.model_half)
    # Before anything is written: it shows whether the codec runs here at all.
    silence = None if (out / SILENCE).is_file() else encoder.encode_silence()
    claim_folder(out, make_details(config, collected, codec, _read_model(config, codec), rank))

    with at_work(out, rank) as folder:
        notes = _settle_list(config, collected, codec, rank, listener)
        if silence is not None:
            folder.store_silence(silence)
        target = Target(collected.source.root, codec.sample_rate, codec.num_channels)
        describer = ItemDescriber(collected, codec)
        work = Work(folder, rank, config.batch_size, target, encoder, describer, listener)
        started = time.monotonic()
        num_items = work.run(config.num_workers)
        elapsed = time.monotonic() - started
        folder.finish(work.failures)
    return PreEncodeReport(
        path=out,
        codec=codec.name,
        rank=rank,
        items=num_items - len(work.failures),
        new_items=work.new_items,
        failures=work.failures,
        new_seconds=work.totals.seconds,
        encode_seconds=elapsed,
        notes=notes,
    )


def _load_codec(config: PreEncodeConfig, device: str) -> Codec:
    for name, path in (("model_config", config.model_config_path), ("ckpt_path", config.ckpt_path)):
        if path is not None and not path.is_file():
            raise ConfigError(f"{name}: no such file: {path}")
    options = {} if config.ckpt_path is None else {"checkpoint": str(config.ckpt_path)}
    name = str(config.model_config_path or config.pretrained_name)
    codec = load_codec(name, device=device, precision="fp16" if config.model_half else None, **options)
    if config.is_discrete != (codec.kind == "codes"):
        fault = (
            "it produces latents; leave is_discrete out"
            if config.is_discrete
            else "it produces tokens; add is_discrete"
        )
        raise ConfigError(f"{name}: {fault}")
    if codec.sample_rate > MAX_SAMPLE_RATE:
        raise ConfigError(f"{name}: expected a sample rate of at most {MAX_SAMPLE_RATE:,}, found {codec.sample_rate:,}")
    return codec


def _read_model(config: PreEncodeConfig, codec: Codec) -> dict[str, Any]:
    if config.model_config_path is None:
        return model_config_of(array_spec(codec))
    return dict(json.loads(config.model_config_path.read_bytes()))


def _settle_list(
    config: PreEncodeConfig, collected: Collected, codec: Codec, rank: Rank, listener: Listener
) -> list[str]:
    """Freeze the list of items if it is not frozen yet; return notes on what may surprise a user."""
    out: Path = config.output_path
    notes = collected.notes()
    is_frozen = list_path(out).exists()
    if is_frozen:
        refuse_strangers(out, collected)
    # One rank says it for all: it takes another look at the whole source.
    if is_frozen and config.limit_batches is None and rank.rank == 0:
        new = new_recordings(out, collected)
        if new:
            notes.append(
                f"recordings added to the source after the first run, not encoded: {len(new)} (first: {new[0]}); "
                "encode them into another folder, or use `solfa encode`, which appends"
            )

    def freeze() -> bool:
        freeze_list(
            out,
            ItemMetadata(collected, config.sample_size, codec.sample_rate, codec.num_channels),
            Cut(config.sample_size, codec.sample_rate, collected.random_crop),
            shuffle=config.shuffle,
            max_items=None if config.limit_batches is None else config.limit_batches * config.batch_size,
            on_recordings=listener.planning,
        )
        return True

    plan_one_at_a_time(out, lambda: list_path(out).exists() or None, freeze, listener.waiting)
    check_capacity(len(read_lengths(out)), config.batch_size, rank.world_size)
    return notes
