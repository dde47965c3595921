"""`solfa info`: how experiments are doing, read from their folders without importing what trained them."""

import json
import os
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solfa.errors import ConfigError
from solfa.ui.terminal.console import console, errors, print_facts, print_table, visible

if TYPE_CHECKING:
    from solfa.generate.condition_facts import ConditionFacts
    from solfa.xp.record import ExperimentRecord

EXAMPLES = """
[bold]Examples[/]

  solfa info                  all experiments, newest first

  solfa info 9521b0af         one experiment: its state, its metrics and their curves

  solfa info 95 --metrics     all values, epoch by epoch; the first characters of a signature are enough

  solfa info 9521b0af -t      follow its log until it ends, or until Ctrl-C

SOLFA_DORA_DIR or the team file says where the experiments are.
"""
POLL_SECONDS = 0.2
_UNSAFE = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f]")
"""Control characters, except the tabs and colours a log may contain."""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("info", epilog=EXAMPLES)(info)


def info(
    signature: Annotated[
        str | None,
        typer.Argument(metavar="SIG", help="Signature (or its first characters) or experiment folder."),
    ] = None,
    from_signature: Annotated[
        str | None, typer.Option("-f", help="Same as SIG, spelled as in Dora.", metavar="SIG")
    ] = None,
    metrics: Annotated[bool, typer.Option("--metrics", "-m", help="Show all values, epoch by epoch.")] = False,
    tail: Annotated[bool, typer.Option("--tail", "-t", help="Follow the log until the run ends, or Ctrl-C.")] = False,
    log: Annotated[bool, typer.Option("--log", "-l", help="Print the log.")] = False,
    config: Annotated[bool, typer.Option("--config", help="Print the whole configuration as YAML.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show how an experiment is doing, or list all experiments."""
    from solfa.environment.teams import load_environment
    from solfa.xp.record import find_experiment, list_experiments, read_experiment

    flags = {"--metrics": metrics, "--tail": tail, "--log": log, "--config": config, "--json": as_json}
    chosen = [flag for flag, is_given in flags.items() if is_given]
    if len(chosen) > 1:
        raise ConfigError(f"expected only one of {', '.join(flags)}, found {' and '.join(chosen)}")
    if signature and from_signature and signature != from_signature:
        raise ConfigError(f"expected one experiment, found {signature} and -f {from_signature}")
    xps_dir = load_environment(os.environ).xps_dir
    wanted = signature or from_signature
    if not wanted:
        if chosen not in ([], ["--json"]):
            raise ConfigError(f"{chosen[0]}: expected the signature of an experiment too; `solfa info` lists them")
        _print_all([read_experiment(folder) for folder in list_experiments(xps_dir)], xps_dir, as_json=as_json)
        return
    record = read_experiment(find_experiment(xps_dir, wanted))
    if tail:
        _follow(record)
    elif log:
        _print_log(record)
    elif config:
        _print_config(record)
    elif as_json:
        from solfa.ui.terminal.experiment_tables import experiment_json

        conditions = [asdict(condition) for condition in _conditions(record)]
        _print_json({**experiment_json(record, time.time()), "conditions": conditions})
    elif metrics:
        _print_history(record)
    else:
        _print_one(record)


def _print_all(records: "list[ExperimentRecord]", xps_dir: Path, *, as_json: bool) -> None:
    """Print one line per experiment."""
    from solfa.ui.terminal.experiment_tables import experiment_json, experiments_table

    now = time.time()
    if as_json:
        _print_json([experiment_json(record, now) for record in records])
    elif records:
        print_table(experiments_table(records, now))
        _print_faults([fault for record in records for fault in record.faults])
    else:
        console.print(f"no experiments in {visible(str(xps_dir))} yet", soft_wrap=True, highlight=False)


def _print_one(record: "ExperimentRecord") -> None:
    """Print what an experiment is, how it is doing, the curves of its metrics, and what its model can be told."""
    from solfa.cli.condition_flags import conditions_table
    from solfa.ui.terminal.experiment_tables import experiment_facts
    from solfa.ui.terminal.history_table import all_series, summary_table

    print_facts(f"[bold]{visible(record.signature)}[/]", experiment_facts(record, time.time()))
    series = all_series(record.history)
    if series:
        console.print()
        print_table(summary_table(series))
    conditions = _conditions(record)
    if conditions:
        console.print()
        print_table(conditions_table(conditions))
    _print_faults(record.faults)


def _conditions(record: "ExperimentRecord") -> "list[ConditionFacts]":
    from solfa.generate.condition_facts import described_conditions

    return described_conditions(record.config or {}, record.folder)


def _print_history(record: "ExperimentRecord") -> None:
    """Print all metrics, one table per stage."""
    from solfa.ui.terminal.history_table import all_series, history_table

    series = all_series(record.history)
    if not series:
        console.print(f"{visible(record.signature)}: no epoch is complete yet", highlight=False)
    for stage in dict.fromkeys(found.stage for found in series):
        print_table(history_table(series, stage))
        console.print()
    _print_faults(record.faults)


def _print_log(record: "ExperimentRecord") -> None:
    if not record.log.is_file():
        raise ConfigError(f"{record.log}: expected a log, found none; the experiment has not run here")
    with record.log.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for line in file:
            _echo(line.rstrip("\r\n"))


def _follow(record: "ExperimentRecord") -> None:
    """Print the end of a log and follow it until the run is over, or Ctrl-C."""
    from solfa.files.tail import follow_lines

    ending = ""

    def wait() -> bool:
        nonlocal ending
        if ending:
            return False
        ending = _ending(record.folder)
        if not ending:
            time.sleep(POLL_SECONDS)
        return True  # at the end as well: the last lines may have come after the last look

    if not record.log.is_file():
        errors.print(f"waiting for {visible(str(record.log))}", soft_wrap=True, highlight=False)
    try:
        for line in follow_lines(record.log, wait):
            _echo(line)
    except KeyboardInterrupt:
        return
    errors.print(f"{visible(record.signature)} is not running: {visible(ending)}", soft_wrap=True, highlight=False)


def _ending(folder: Path) -> str:
    """Say how the run of an experiment ended; nothing while it goes on, may go on elsewhere, or is still to come."""
    from solfa.xp.lock import read_lock
    from solfa.xp.record import read_experiment

    if read_lock(folder).is_held:  # cheap, unlike the records
        return ""
    record, now = read_experiment(folder), time.time()
    return "" if record.state(now) in ("running", "unknown", "never ran") else record.state_words(now)


def _print_config(record: "ExperimentRecord") -> None:
    import yaml  # type: ignore[import-untyped]

    if record.config is None:
        reason = record.faults[0] if record.faults else "the experiment has not run here"
        raise ConfigError(f"{record.signature}: no configuration is stored ({reason})")
    _echo(yaml.safe_dump(dict(record.config), sort_keys=False, allow_unicode=True).rstrip())


def _print_json(value: Any) -> None:
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def _print_faults(faults: "list[str] | tuple[str, ...]") -> None:
    for fault in faults:
        errors.print(f"[yellow]damaged[/] {visible(fault)}", soft_wrap=True, highlight=False)


def _echo(line: str) -> None:
    typer.echo(_UNSAFE.sub(lambda match: f"\\x{ord(match[0]):02x}", line))
