"""Look at an experiment without running it: its data, its size and what it would take. Nothing is written."""

from contextlib import suppress
from pathlib import Path

from dora.xp import XP

from solfa.data.sources.dset import Dset, Source
from solfa.demo.demo_paths import demo_folder
from solfa.environment.teams import Environment
from solfa.experiments.compose.settings import Settings
from solfa.experiments.run.data import refuse_missing
from solfa.experiments.run.encoded_source import find_encoded
from solfa.solvers.experiment import Experiment, PlanTold, build_solver
from solfa.solvers.watchers.protocol import Watcher, Watchers


def dry_run(xp: XP, settings: Settings, environment: Environment, watcher: Watcher) -> None:
    """Tell the watcher what a run would take; audio without a dataset leaves clips and parameters unknown."""
    solver, cfg = settings
    solver.check_start(cfg)
    if cfg.dset is not None:
        refuse_missing(cfg.dset, demo_folder(environment.dora_dir))
        audio = audio_to_encode(cfg.dset, environment)
        if audio:
            listed = ", ".join(f"{source.path} with {source.codec}" for source in audio)
            first = ("data", f"encoded first, or imported: {listed}; clips, parameters and memory are known only then")
            watcher.planned([("solver", f"{cfg.solver}, experiment {xp.sig}"), first])
            return
        cache = environment.dora_dir / "encoded"
        cfg = cfg.model_copy(update={"dset": cfg.dset.mapped(lambda source: find_encoded(source, cache) or source)})
    with suppress(PlanTold):
        build_solver(solver, cfg, Experiment(xp.folder, xp.sig, Watchers([watcher]), is_dry=True))


def audio_to_encode(dset: Dset, environment: Environment) -> list[Source]:
    """List the sources of audio that a run would encode before anything else; the demo's may not even exist yet."""
    demo, cache = demo_folder(environment.dora_dir), environment.dora_dir / "encoded"
    missing: list[Source] = []

    def look(source: Source) -> Source:
        is_synthesised = Path(source.path).is_relative_to(demo) and not demo.is_dir()
        if (is_synthesised or find_encoded(source, cache) is None) and source not in missing:
            missing.append(source)
        return source

    dset.mapped(look)
    return missing
