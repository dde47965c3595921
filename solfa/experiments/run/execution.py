"""Run an experiment: settings, log, data, solver, in that order."""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from dora.distrib import set_distrib_env
from dora.xp import XP

from solfa.environment.faults import disk_fault, memory_fault, traceback_note
from solfa.environment.ranks import Rank, read_rank
from solfa.environment.teams import Environment
from solfa.errors import SolfaError
from solfa.evaluate.clip_judge import ClipJudge
from solfa.experiments.compose.settings import Settings, settle
from solfa.experiments.processes.children import watch_parent
from solfa.experiments.run.data import prepare_data
from solfa.solvers.config import SolverConfig
from solfa.solvers.experiment import Experiment, build_solver
from solfa.solvers.watchers.log import LoggedStages
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.ui.clip_files import SampleWriter
from solfa.ui.evidence_files import EvidenceWriter
from solfa.ui.terminal.run_clock import RunShape
from solfa.ui.terminal.training_view import TerminalWatcher
from solfa.xp.failure import forget_failure, read_failure, record_failure
from solfa.xp.layout import LAST, log_path
from solfa.xp.lock import locked
from solfa.xp.log_files import FILE_ONLY, log_to
from solfa.xp.mirror import mirror_of, restore_folder, wait_until_restored
from solfa.xp.provenance import read_software, record_start, spell_command

logger = logging.getLogger(__name__)

_DATA_FACTS = ("digest", "fingerprint", "codec", "codec_fingerprint", "clips")
"""What identifies the data of a run."""


def run_experiment(xp: XP, settings: Settings, environment: Environment) -> None:
    """Train, or continue training, in the experiment's folder; only the first process writes shared files."""
    watch_parent(os.environ)
    set_distrib_env()
    rank = read_rank(os.environ)
    with locked(xp.folder) if rank.rank == 0 else nullcontext():
        _run(xp, settings, environment, rank)


def _run(xp: XP, settings: Settings, environment: Environment, rank: Rank) -> None:
    is_first = rank.rank == 0
    if settings.cfg.checkpoint.mirror is not None:
        bring_back = restore_folder if is_first else wait_until_restored
        bring_back(mirror_of(settings.cfg.checkpoint.mirror, xp.sig), xp.folder)
    solver, cfg = settle(xp.folder, settings, xp.dora.exclude, write=is_first)
    log_to(xp.folder, rank.rank)
    overrides = " ".join(xp.argv) or "no overrides"
    logger.info("experiment %s in %s: %s", xp.sig, xp.folder, overrides, extra=FILE_ONLY)
    software = read_software()
    logger.info("%s", software, extra=FILE_ONLY)
    if is_first:
        forget_failure(xp.folder)
    if cfg.model_extra:
        names = ", ".join(cfg.model_extra)
        logger.info("%s has no Config class, so these keys are taken as they are: %s", solver.__name__, names)
    begun = Begun()
    try:
        if is_first and not (xp.folder / LAST).is_file():
            solver.check_start(cfg)
        cfg = prepare_data(cfg, xp.folder, environment, os.environ, is_first=is_first)
        watchers = make_watchers(cfg, xp.folder) if is_first else []
        provenance = {"experiment": xp.sig, "command": spell_command(sys.argv, Path.home()), **software.values()}
        experiment = Experiment(
            xp.folder, xp.sig, Watchers([begun, *watchers]), provenance=provenance, judge=ClipJudge()
        )
        built = build_solver(solver, cfg, experiment)
        if is_first:
            data = {name: built.data_facts[name] for name in _DATA_FACTS if name in built.data_facts}
            logger.info("data: %s", data or "the solver's own", extra=FILE_ONLY)
            record_start(xp.folder, {**provenance, "data": data})
        built.run()
    except SolfaError as error:
        logger.error("stopped: %s", error, extra=FILE_ONLY)
        _record(xp.folder, error, is_first=is_first, is_refusal=is_first and not begun.has_begun)
        raise
    except Exception as error:
        logger.exception("stopped by an unexpected error", extra=FILE_ONLY)
        for note in what_to_do(error, xp.folder, rank.rank):
            error.add_note(note)
        _record(xp.folder, error, is_first=is_first)
        raise


def what_to_do(error: Exception, folder: Path, rank: int = 0) -> list[str]:
    """Say what to change after an error that stopped a run, where its traceback is, and what was kept."""
    notes = []
    if memory_fault(error) is not None:
        notes.append("set dataset.batch_size lower and optim.accumulate higher, or choose a smaller model")
    elif disk_fault(error) is not None:
        notes.append("free some space")
    kept = f"the last good state is in {folder / LAST}, and the same command continues from it"
    return [
        *notes,
        traceback_note(log_path(folder, rank)),
        *([kept] if (folder / LAST).is_file() else []),
    ]


def _record(folder: Path, error: Exception, *, is_first: bool, is_refusal: bool = False) -> None:
    """Write down why the run ended; what the first process says counts more than what the others say."""
    if is_first or read_failure(folder) is None:
        record_failure(folder, error, is_refusal=is_refusal)


class Begun(Watcher):
    """Knows whether the run has begun: before that, an error is a refusal."""

    def __init__(self) -> None:
        self.has_begun = False

    def started(self, folder: Path, hyper_parameters: Mapping[str, Any]) -> None:
        self.has_begun = True


def make_watchers(cfg: SolverConfig, folder: Path) -> list[Watcher]:
    """Gather what follows the run: the terminal, the log, the writer of generated clips, and any other that is set."""
    asked_for = cfg.logging.build(folder, cfg.optim.updates_per_epoch)
    # The terminal first: it removes its bar before anything else writes there.
    terminal = TerminalWatcher(cfg.optim.epochs, shape=RunShape.of(cfg))
    shown = [terminal, LoggedStages(cfg.optim.epochs, on_terminal=False)]
    return [*shown, SampleWriter(folder), EvidenceWriter(folder), *asked_for]
