"""`solfa train`: run an experiment in one process or several."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solfa.ui.terminal.console import console, print_next, visible

if TYPE_CHECKING:
    from dora.xp import XP

    from solfa.experiments.compose.experiment_main import ExperimentMain
    from solfa.solvers.standard import StandardSolver

EXAMPLES = """
[bold]Examples[/]

  solfa train solver=lm/debug

  solfa train dset.train=music.solfa --dry-run

  solfa train dset.train=music.solfa --preflight

  solfa train solver=lm/base dset=mine optim.epochs=50 device=cuda

  solfa train -d --ddp-workers 2 solver=lm/debug

  solfa train -f SIG optim.optimizer.lr=1e-4

An experiment is identified by its overrides of the files in conf/, and the same command resumes it. `dora run` with
the same overrides is the same experiment. Without a solver, the one that suits this machine is added to them. To add
your own YAML, lay out a folder like solfa/conf and list it in SOLFA_SEARCH_PATH.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("train", epilog=EXAMPLES)(train)


def train(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="What to change: a group's file, or a value.", show_default=False),
    ] = None,
    ddp: Annotated[bool, typer.Option("-d", "--ddp", help="Run several processes on this machine.")] = False,
    ddp_workers: Annotated[
        int | None, typer.Option(help="Number of processes; implies -d.", show_default="one per GPU, two on a CPU")
    ] = None,
    from_sig: Annotated[
        str | None, typer.Option("-f", "--from-sig", metavar="SIG", help="Start from the overrides of this experiment.")
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Delete the experiment's folder, and its mirror if any, and start over.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and show what it would take; write nothing.")
    ] = False,
    preflight: Annotated[
        bool,
        typer.Option("--preflight", help="Show the first batch and a rehearsal on it on a page; do not run."),
    ] = False,
    preflight_updates: Annotated[int, typer.Option(min=1, help="Updates on the first batch for --preflight.")] = 50,
    preflight_page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where --preflight writes its page.", show_default="preflight-SIG.html"),
    ] = None,
) -> None:
    """Train a model in the folder of its experiment, or resume training."""
    import os

    from solfa.cli.dora_main import load_main
    from solfa.environment.ranks import read_rank
    from solfa.errors import ConfigError
    from solfa.experiments.compose.default_solver import ChosenRun, compose_here

    main, rank = load_main(), read_rank(os.environ)
    if clear and rank.world_size > 1:
        raise ConfigError("--clear: not possible while several processes start; clear first, with one process")
    if from_sig is not None:
        xp, reason = ChosenRun(main.compose([*_overrides_of(main, from_sig), *(overrides or [])]))
    else:
        xp, reason = compose_here(main, overrides or [])
    main.check(xp, is_cleared=clear)
    if rank.rank == 0 and reason:
        console.print(reason, soft_wrap=True, highlight=False)
    if dry_run:
        _show(main, xp)
        return
    if preflight:
        if ddp or ddp_workers is not None:
            raise ConfigError("--preflight: it runs in one process; leave out -d and --ddp-workers")
        _rehearse(main, xp, preflight_updates, preflight_page)
        return
    if preflight_page is not None:
        raise ConfigError("--preflight-page: it needs --preflight; add it, or leave --preflight-page out")
    if clear:
        main.clear(xp)
    if (ddp or ddp_workers is not None) and rank.world_size == 1:
        from solfa.experiments.processes.ddp import start_workers

        code = start_workers(main, xp, ddp_workers)
        if code:
            raise typer.Exit(code)
    else:
        main.start(xp)
    if rank.rank == 0:
        _say_next(xp.sig, main.settings(xp).solver)


def _overrides_of(main: "ExperimentMain", from_sig: str) -> list[str]:
    """Look up what was typed for an experiment; a folder elsewhere may be somebody else's, and name code to run."""
    from solfa.errors import ConfigError
    from solfa.xp.record import find_experiment

    xps_dir = main.environment.xps_dir
    folder = find_experiment(xps_dir, from_sig)
    if folder.resolve().parent != xps_dir.resolve():
        raise ConfigError(
            f"`from_sig` {from_sig}: expected an experiment in {xps_dir}, found a folder elsewhere; `solfa info "
            f"{from_sig}` shows its overrides: type those that you want"
        )
    return list(main.get_argv_from_sig(folder.name))


def _show(main: "ExperimentMain", xp: "XP") -> None:
    """Show what a run would take."""
    from solfa.experiments.run.dry_run import dry_run
    from solfa.ui.terminal.training_view import TerminalWatcher

    dry_run(xp, main.settings(xp), main.environment, TerminalWatcher())
    console.print(f"dry run of experiment [bold]{xp.sig}[/]: nothing was written", highlight=False)


def _rehearse(main: "ExperimentMain", xp: "XP", num_updates: int, page: Path | None) -> None:
    """Rehearse a run, and say what was found out."""
    from solfa.experiments.run.preflight import preflight
    from solfa.spelling import duration, size
    from solfa.ui.terminal.training_view import TerminalWatcher

    place = Path(f"preflight-{xp.sig}.html") if page is None else page
    found = preflight(xp, main.settings(xp), main.environment, TerminalWatcher(), num_updates, place)
    for loss in found.expected:
        console.print(f"loss {loss.value:.4g}: {loss.whose}", soft_wrap=True, highlight=False)
    for value, whose in ((found.untrained, "before any training"), (found.start, "with the weights of continue_from")):
        if value is not None:
            console.print(f"loss {value:.4g}: this network, {whose}", soft_wrap=True, highlight=False)
    for sentence in (
        found.verdict,
        f"all updates would take {duration(found.seconds)}, and the most memory used was {size(found.peak_bytes)}",
        f"preflight of experiment [bold]{xp.sig}[/]: open {visible(str(place))}; nothing else was written",
    ):
        console.print(sentence, soft_wrap=True, highlight=False)


def _say_next(signature: str, solver: "type[StandardSolver[Any]]") -> None:
    """Name the commands that people type after training."""
    commands = [f"solfa info {signature}"]
    if solver.Generator is not None:
        commands.insert(0, f"solfa generate {signature} --seconds 5 --num 2 --out clips/")
    print_next(*commands)
