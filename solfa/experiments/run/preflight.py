"""Look at an experiment before it runs: rehearse it in a folder that is removed again, and write a page about it."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from dora.xp import XP

from solfa.codecs.protocol import Encoded
from solfa.environment.ranks import read_rank
from solfa.environment.teams import Environment
from solfa.errors import ConfigError
from solfa.evaluate.statistics import code_statistics, latent_statistics
from solfa.experiments.compose.settings import Settings
from solfa.experiments.run.data import prepare_data
from solfa.files.whole_files import replace_atomically
from solfa.generate.data_codec import DataCodec
from solfa.solvers.config import SolverConfig
from solfa.solvers.experiment import Experiment, build_solver
from solfa.solvers.optim.schedules import Constant
from solfa.solvers.plan.rehearsal import Rehearsal, SeenRow, rehearse
from solfa.solvers.watchers.protocol import Watcher, Watchers
from solfa.store.schema import ArraySpec
from solfa.ui.html.preflight_page import PreflightPage, render_preflight
from solfa.ui.html.report_data import Sound

ROWS = 4
"""How many rows of the batch are decoded."""


def preflight(
    xp: XP, settings: Settings, environment: Environment, watcher: Watcher, num_updates: int, page: Path
) -> Rehearsal:
    """Rehearse a run, write a page about it, and leave no experiment behind."""
    if read_rank(os.environ).world_size > 1:
        raise ConfigError("preflight: expected one process, found several; leave out the launcher")
    solver, cfg = settings
    plan = _Plan()
    with tempfile.TemporaryDirectory(prefix="solfa-preflight-") as place:
        folder = Path(place)
        cfg = prepare_data(cfg, folder, environment, os.environ, is_first=True)
        experiment = Experiment(folder, xp.sig, Watchers([plan, watcher]))
        built = build_solver(solver, _for_one_batch(cfg), experiment)
        optim = cfg.optim
        rehearsal = rehearse(built, num_updates, batches_per_update=optim.accumulate, total_updates=optim.total_updates)
        array = ArraySpec.model_validate(built.data_facts["array"])
        codec_name = str(getattr(cfg, "codec", None) or built.data_facts["codec"])
        sounds = decode_rows(rehearsal.rows[:ROWS], codec_name, array)
    seen = [row.seen for row in rehearsal.rows]
    content = PreflightPage(
        signature=xp.sig,
        plan=tuple(plan.facts),
        rehearsal=rehearsal,
        sounds=sounds,
        codebook_size=array.codebook_size,
        latents=latent_statistics(seen) if array.kind == "latents" else None,
        codes=code_statistics(seen, array.codebook_size) if array.codebook_size is not None else None,
    )
    replace_atomically(page, render_preflight(content).encode("utf-8"))
    return rehearsal


def _for_one_batch(cfg: SolverConfig) -> SolverConfig:
    """Learn at the full rate at once: a schedule would still be warming up."""
    optim = cfg.optim.model_copy(update={"schedule": Constant(), "accumulate": 1})
    return cfg.model_copy(update={"optim": optim})


def decode_rows(rows: Sequence[SeenRow], codec_name: str, array: ArraySpec) -> tuple[Sound, ...]:
    """Decode what the rows hold."""
    codec = DataCodec(codec_name, array).on(torch.device("cpu"))
    sounds = []
    for row in rows:
        encoded = Encoded(torch.from_numpy(row.array)[None], len(row.array) * codec.hop_length)
        with torch.inference_mode():
            audio = codec.decode(encoded)[0]
        sounds.append(Sound(audio.float().cpu().numpy(), codec.sample_rate))
    return tuple(sounds)


class _Plan(Watcher):
    """Keeps what is known before anything large is built."""

    def __init__(self) -> None:
        self.facts: list[tuple[str, str]] = []

    def planned(self, facts: Sequence[tuple[str, str]]) -> None:
        self.facts = list(facts)
