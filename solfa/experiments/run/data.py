"""Prepare a run in its first process: synthesise demo recordings, encode audio into datasets, choose the precision.

The other processes wait for a note in the experiment's folder that says where the datasets are and which start of the
run made them: a note left by an earlier start does not count. A run that goes on keeps what the note says.
"""

import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from solfa.config import Config, parse_config
from solfa.data.sources.dset import Dset, Source
from solfa.data.sources.stage_source import leak_of
from solfa.demo.demo_paths import demo_folder
from solfa.demo.recordings import demo_audio
from solfa.encoding.progress import Listener, Totals
from solfa.environment.teams import Environment
from solfa.errors import ConfigError
from solfa.experiments.processes.ddp import RUN
from solfa.files.digest import value_sha256
from solfa.files.printable_names import escape_path
from solfa.files.stores.place import expand_place
from solfa.files.whole_files import replace_atomically
from solfa.solvers.config import Precision, SolverConfig
from solfa.solvers.fabric.devices import fastest_precision
from solfa.spelling import plural
from solfa.store.layout import manifests
from solfa.store.schema import DatasetInfo
from solfa.xp.layout import LAST, PREPARED

logger = logging.getLogger(__name__)

_STARTS = (RUN, "MASTER_ADDR", "MASTER_PORT", "SLURM_JOB_ID", "SLURM_RESTART_COUNT")
_ELASTIC_STARTS = ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")


def prepare_data(
    cfg: SolverConfig,
    folder: Path,
    environment: Environment,
    variables: Mapping[str, str],
    *,
    is_first: bool,
) -> SolverConfig:
    """Replace every audio source of a run with a dataset of it, encoding where needed, and settle its precision."""
    if cfg.dset is None and cfg.precision != "auto":
        return cfg
    note, start = folder / PREPARED, name_of_start(variables)
    if is_first:
        before, dset, precision = _before(folder), None, cfg.precision
        if precision == "auto":
            precision = before.precision if before is not None else fastest_precision(cfg.device)
        if cfg.dset is not None:
            known = before.dset if before is not None else None
            dset = pinned(_prepare(cfg.dset, environment, LoggedProgress()), known)
            answer_leak(dset)
        found = _Prepared(dset=dset, precision=precision)
        replace_atomically(note, json.dumps({"start": start, **found.model_dump(mode="json")}).encode())
    else:
        found = _wait_for(note, start)
    return cfg.model_copy(update=dict(found))


class _Prepared(Config):
    """What all processes of a run have to agree on."""

    dset: Dset | None
    precision: Precision = "32-true"


def answer_leak(dset: Dset) -> None:
    """Say if validation holds copies of what is trained on, and by how much; refuse such data if that was asked for."""
    if dset.on_leak == "ignore":
        return
    leak = leak_of(dset)
    if leak is None:
        if dset.on_leak == "refuse":
            raise ConfigError(
                "dset.on_leak=refuse: the datasets have no fingerprints of their content to compare; add them with "
                "`solfa fingerprint DATASET --source SOURCE`"
            )
        return
    if leak.num_unknown:
        logger.info("%s have no fingerprint and were not compared", plural(leak.num_unknown, "clip"))
    if leak.first is None:
        return
    copy, original, landmarks = leak.first
    way_out = "dset.hold_out.by=content keeps copies on one side" if dset.hold_out else "leave them out of dset.valid"
    told = (
        f"{leak.num_copies} of {plural(leak.num_clips, 'clip')} of validation ({leak.share:.1%}) are copies of "
        f"training clips, which makes its loss look better than it is (first: {copy} is a copy of {original}: "
        f"{landmarks} landmarks agree); {way_out}"
    )
    if dset.on_leak == "refuse":
        raise ConfigError(f"dset.on_leak=refuse: {told}")
    logger.warning("%s", told)


def pinned(dset: Dset, before: Dset | None) -> Dset:
    """Pin every dataset to the manifest the run started with, so that the order of clips stays the same.

    The dataset may have grown since; new clips belong to a new experiment, which can continue from this one.
    """
    stages = [sources for _, sources in before or () if isinstance(sources, tuple)]
    known = [source for sources in stages for source in sources if source.manifest is not None]

    def pin(source: Source) -> Source:
        states = manifests(expand_place(source.path))
        if not states:
            return source
        old = next((old for old in known if _leaves_open(source, old) == source), None)
        number = source.manifest or (states[-1] if old is None else old.manifest)
        if source.manifest is None and number != states[-1]:
            logger.info(
                "%s: using manifest %s, which the run started with; %s is newer", source.path, number, states[-1]
            )
        table = source.table if old is None else old.table
        return source.model_copy(
            update={"manifest": number, "table": table and (table if table.sha256 else table.pinned())}
        )

    return dset.mapped(pin)


def _leaves_open(source: Source, old: Source) -> Source:
    """Reset in an earlier source what `source` leaves open: the dataset's manifest and the table's hash."""
    table = old.table
    if table is not None and source.table is not None:
        table = table.model_copy(update={"sha256": source.table.sha256})
    return old.model_copy(update={"manifest": source.manifest, "table": table})


def _before(folder: Path) -> _Prepared | None:
    """Read what an interrupted run was using."""
    note = folder / PREPARED
    if not note.is_file() or not (folder / LAST).is_file():
        return None
    return _read(note)[1]


def _read(note: Path) -> tuple[str, _Prepared]:
    """Read by which start a note was made, and what it says."""
    values = json.loads(note.read_bytes())
    return str(values.pop("start")), parse_config(_Prepared, values, str(note))


def name_of_start(variables: Mapping[str, str]) -> str:
    """Name this start of a run; all its processes get the same name."""
    return value_sha256({name: variables.get(name) for name in (*_STARTS, *_ELASTIC_STARTS)})[:16]


def _prepare(dset: Dset, environment: Environment, listener: Listener) -> Dset:
    # Imported late, because it imports the codecs.
    from solfa.experiments.run.encoded_source import prepare_source

    demo, cache = demo_folder(environment.dora_dir), environment.dora_dir / "encoded"
    refuse_missing(dset, demo)

    def prepared(source: Source) -> Source:
        if Path(source.path).is_relative_to(demo):
            demo_audio(demo)
        return prepare_source(source, cache, listener)

    return dset.mapped(prepared)


def refuse_missing(dset: Dset, made_later: Path) -> None:
    """Refuse a path where nothing is, naming the key to set; the demo's recordings are made when they are needed."""
    for stage, sources in dset:
        for source in sources if isinstance(sources, tuple) else ():
            path = Path(source.path).expanduser()
            # `shard-{000..031}.tar` and `s3://...` name several files, or none of this machine.
            if any(mark in source.path for mark in ("{", "://")) or path.is_relative_to(made_later) or path.exists():
                continue
            key = f"dset.{stage}.path" if len(sources) == 1 else f"dset.{stage}"
            raise ConfigError(
                f"{key}: {escape_path(path)} does not exist; put the audio there, or set {key}=FOLDER to where it is"
            )


def _wait_for(note: Path, start: str) -> _Prepared:
    """Wait for the first process to write its note; if it fails, whoever started this process ends it."""
    while True:
        if note.is_file():
            made_by, prepared = _read(note)
            if made_by == start:
                return prepared
        time.sleep(0.2)


class LoggedProgress:
    """Logs the progress of an encoding now and then; a run has no terminal of its own to draw on."""

    def __init__(self, seconds_between: float = 10.0) -> None:
        self._seconds_between = seconds_between
        self._started = self._told = time.monotonic()

    def settled(self, info: DatasetInfo, *, is_new: bool) -> None: ...
    def waiting(self) -> None: ...

    def listing(self, objects: int) -> None:
        """Log how many objects of a bucket have been listed so far."""
        self._tell("listing the audio: %d objects so far", objects)

    def planning(self, recordings: int) -> None:
        """Log how many recordings have been read so far."""
        self._tell("reading the audio: %s so far", plural(recordings, "recording"))

    def loading(self, encoders: int) -> None:
        """Start the clock: the encoders are loading."""
        self._started = time.monotonic()

    def encoding(self, done: Totals, clips: int, seconds: float) -> None:
        """Log how much is done, how fast, and how long the rest will take at that speed."""
        rate = done.seconds / max(1e-9, time.monotonic() - self._started)
        left = (seconds - done.seconds) / rate if rate else 0.0
        self._tell("encoding: %d of %d clips, %.1fx real time, %.0f s left", done.clips, clips, rate, left)

    def _tell(self, text: str, *values: float | str) -> None:
        if time.monotonic() - self._told >= self._seconds_between:
            self._told = time.monotonic()
            logger.info(text, *values)
