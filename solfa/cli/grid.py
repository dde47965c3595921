"""`solfa grid`: run the experiments of a grid, on this machine or through Slurm."""

from typing import TYPE_CHECKING, Annotated

import typer

from solfa.ui.terminal.console import console, visible

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from solfa.experiments.compose.experiment_main import ExperimentMain
    from solfa.experiments.processes.grid import GridExperiment
    from solfa.experiments.processes.local_grid import GridJob

EXAMPLES = """
[bold]Examples[/]

  solfa grid lm.debug --dry-run

  solfa grid lm.debug --local --jobs 2

  solfa grid -P mypackage sweep --local        # mypackage/grids/sweep.py

  solfa grid lm.debug                          # on a Slurm cluster

Finished experiments are left alone and stopped ones resume. Each experiment keeps its log in its own folder.
"""

_COLOURS = {"running": "cyan", "done": "green", "failed": "red", "stopped": "yellow", "waiting": "dim"}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("grid", epilog=EXAMPLES)(grid)


def grid(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The grid, module PACKAGE.grids.NAME.")],
    package: Annotated[str, typer.Option("-P", "--package", help="Package that holds the grid.")] = "solfa",
    local: Annotated[bool, typer.Option("--local", help="Run on this machine, without Slurm.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="With --local: experiments to run at a time.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    init: Annotated[
        bool, typer.Option("--init", help="Create the folders, so that other commands know the signatures.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Delete the experiments' folders and start over.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --clear: do not ask.")] = False,
) -> None:
    """Run every experiment of a grid."""
    from solfa.cli.dora_main import load_main
    from solfa.errors import ConfigError
    from solfa.experiments.processes.grid import check_slurm, find_explorer, link_experiments, list_experiments, submit

    main = load_main()
    explorer = find_explorer(package, name)
    if clear and dry_run:
        raise ConfigError("--clear: --dry-run deletes nothing; leave out one of the two")
    experiments = list_experiments(main, explorer)
    if not experiments:
        raise ConfigError(f"grid {name}: its explorer launches no experiment")
    if not local and not dry_run:
        check_slurm(f"grid {name}", "use `local=True` to run it here")
    for experiment in experiments:
        main.check(experiment.xp, is_cleared=clear)
    if clear:
        _ask_to_clear([experiment.xp.folder for experiment in experiments], is_here=local, yes=yes)
    if clear and local:
        for experiment in experiments:
            main.clear(experiment.xp)
    if init or not dry_run:
        for experiment in experiments:
            main.init_xp(experiment.xp)
    if dry_run:
        console.print(_table(name, experiments, None))
    elif local:
        link_experiments(main, name, experiments)
        raise typer.Exit(_run_here(main, name, experiments, jobs))
    else:
        submit(main, explorer, name, clear=clear)


def _ask_to_clear(folders: "list[Path]", *, is_here: bool, yes: bool) -> None:
    """Ask about the experiments that are there, and refuse those that run; Dora cancels jobs on a cluster itself."""
    from solfa.cli.removal_question import ask_to_remove
    from solfa.xp.removal import expect_removable

    there = [folder for folder in folders if folder.exists()]
    for folder in there if is_here else ():
        expect_removable(folder)
    if there:
        ask_to_remove(there, yes=yes)


def _run_here(main: "ExperimentMain", name: str, experiments: "list[GridExperiment]", num_at_once: int) -> int:
    from rich.live import Live

    from solfa.experiments.processes.ddp import run_command
    from solfa.experiments.processes.local_grid import GridJob, run_jobs
    from solfa.xp.layout import OUTPUT

    jobs = [
        GridJob(one.name, run_command(main, one.xp.argv), one.xp.folder, "done" if one.is_done() else "waiting")
        for one in experiments
    ]
    told = {job.folder: job.state for job in jobs}

    def tell_changes() -> None:
        for experiment, job in zip(experiments, jobs, strict=True):
            if told[job.folder] != job.state:
                told[job.folder] = job.state
                if not console.is_terminal:
                    console.print(f"{experiment.xp.sig} {job.state}: {visible(job.name)}", soft_wrap=True)

    if console.is_terminal:
        with Live(console=console, get_renderable=lambda: _table(name, experiments, jobs), refresh_per_second=2):
            code = run_jobs(jobs, num_at_once)
    else:
        code = run_jobs(jobs, num_at_once, tell_changes)
        console.print(_table(name, experiments, jobs))
    for job in jobs:
        if job.state == "failed":
            where = visible(str(job.folder / OUTPUT))
            console.print(f"[red]failed[/] with {job.exit_code}: {where}", soft_wrap=True, highlight=False)
    return code


def _table(name: str, experiments: "list[GridExperiment]", jobs: "list[GridJob] | None") -> "Table":
    from rich.table import Table

    from solfa.experiments.processes.grid import last_metrics
    from solfa.xp.record import read_experiment

    table = Table("signature", "experiment", "state", "epoch", "last metrics", title=f"grid {visible(name)}", box=None)
    for index, experiment in enumerate(experiments):
        history = read_experiment(experiment.xp.folder).history
        state = jobs[index].state if jobs else "done" if experiment.is_done() else "waiting"
        table.add_row(
            experiment.xp.sig,
            visible(experiment.name),
            f"[{_COLOURS[state]}]{state}[/]",
            f"{len(history)}/{experiment.epochs}",
            visible(last_metrics(history)),
        )
    return table
