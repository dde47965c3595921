"""`solfa pre-encode`: the flags of stable-audio-tools' `pre_encode.py`, or the same keys as YAML, composed by Hydra."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solfa.spelling import duration
from solfa.ui.terminal.console import console, print_facts, print_failures, visible

if TYPE_CHECKING:
    from solfa.encoding.pre_encode.summary import PreEncodeReport

BASE = Path(__file__).parents[1] / "conf" / "pre_encode" / "base.yaml"

NOT_SETTINGS = ("overrides", "config", "trust_code")
"""Parameters that say where settings come from, and what a file with settings must not decide."""

GROUPS = ("model", "dataset")
"""Folders of YAML files to choose from: `model=dac_44khz` means the settings of `model/dac_44khz.yaml`."""

EXAMPLES = (
    "[bold]Examples[/]\n\n"
    "  solfa pre-encode --model-config model.json --ckpt-path vae.safetensors --dataset-config data.json "
    "--output-path latents/\n\n"
    "  solfa pre-encode --pretrained-name dac_44khz --is-discrete --dataset-config data.json --output-path tokens/\n\n"
    "  solfa pre-encode --config my.yaml batch_size=4 output_path=latents/\n\n"
    "  solfa pre-encode model=stable_audio_open dataset=here output_path=latents/\n\n"
    "If it is interrupted, run the same command again to resume. Unreadable files are listed in failures.jsonl; "
    "everything else is encoded, silence included, and recordings longer than --sample-size become consecutive items. "
    "Under a launcher (torchrun --no-python, srun), every process takes its share of the batches.\n\n"
    "Prefer [bold]solfa encode[/] for new work: it pads nothing, stores a few large files and appends new recordings. "
    "[bold]solfa import[/] turns a folder in this layout into a Solfa dataset."
)


def add_to(app: typer.Typer) -> None:
    """Register the command; flags can also be spelled with underscores."""
    settings = {"token_normalize_func": lambda name: name.replace("_", "-")}
    app.command("pre-encode", epilog=EXAMPLES, context_settings=settings)(pre_encode)


def pre_encode(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings that override --config."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings as YAML; KEY=VALUE and flags override them.", show_default="base"),
    ] = None,
    model_config: Annotated[
        str | None, typer.Option("--model-config", "--model-config-path", help="A stable-audio-tools model JSON.")
    ] = None,
    ckpt_path: Annotated[str | None, typer.Option(help="The model's weights: .safetensors, .ckpt or .pt.")] = None,
    pretrained_name: Annotated[
        str | None, typer.Option(help="A codec's name, folder or Hub id, instead of --model-config and --ckpt-path.")
    ] = None,
    dataset_config: Annotated[
        str | None,
        typer.Option(
            "--dataset-config",
            "--dataset-config-path",
            help="A stable-audio-tools dataset JSON.",
            show_default="required",
        ),
    ] = None,
    output_path: Annotated[
        str | None, typer.Option(help="A new folder, or one to continue.", show_default="required")
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Items per batch.", show_default="1")] = None,
    sample_size: Annotated[
        int | None, typer.Option(help="Samples per item, at the model's sample rate.", show_default="1320960")
    ] = None,
    num_workers: Annotated[
        int | None, typer.Option(help="Processes that decode audio ahead; 0: decode in a thread.", show_default="4")
    ] = None,
    shuffle: Annotated[
        bool | None,
        typer.Option("--shuffle", help="Order items by a hash of their names; the order is always the same."),
    ] = None,
    model_half: Annotated[bool | None, typer.Option("--model-half", help="Run and store in fp16.")] = None,
    is_discrete: Annotated[bool | None, typer.Option("--is-discrete", help="Store tokens, [K, N].")] = None,
    num_nodes: Annotated[
        int | None, typer.Option(help="Number of machines the launcher started this on.", show_default="1")
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="auto or ddp.", show_default="auto")] = None,
    limit_batches: Annotated[
        int | None, typer.Option(help="Encode only this many batches, counted over all ranks.")
    ] = None,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", "--run-python", help="Run the custom_metadata_module of a dataset JSON.")
    ] = False,
) -> None:
    """Pre-encode audio into the layout of stable-audio-tools; it can be resumed, and no recording is dropped."""
    flags = dict(locals())
    from solfa.encoding.pre_encode.config import parse_pre_encode

    given = {name: value for name, value in flags.items() if name not in NOT_SETTINGS and value is not None}
    composed = compose(config, overrides or []) if config or overrides else {}
    settings = parse_pre_encode({**composed, **given})
    # Imported this late because it loads torch: a mistake in the settings is reported right away.
    from solfa.encoding.pre_encode.session import pre_encode as run
    from solfa.ui.terminal.encoding_view import EncodeView

    with EncodeView() as view:
        report = run(settings, view, trust_code=trust_code)
    print_report(report)
    if report.items == 0:
        raise typer.Exit(1)


def compose(config: Path | None, overrides: list[str]) -> dict[str, Any]:
    """Compose a YAML file (the packaged one if None) and `key=value` overrides with Hydra into plain values.

    The user's own file may hold only some of the keys, and may name the packaged file in its `defaults` as `base`.
    `model=NAME` and `dataset=NAME` choose files of these groups: packaged ones, those beside the user's file, and those
    below `pre_encode/` in the folders of SOLFA_SEARCH_PATH.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    from solfa.environment.search_path import hydra_search_path, own_folders
    from solfa.errors import ConfigError

    path = (config or BASE).absolute()
    if not path.is_file() or path.suffix != ".yaml":
        raise ConfigError(f"--config: expected a .yaml file, found {path}")
    folders = [folder / "pre_encode" for folder in own_folders(os.environ) if (folder / "pre_encode").is_dir()]
    # Values replace those of a group, so groups come first.
    chosen = [_choice(text, [path.parent, *folders, BASE.parent]) for text in overrides if _group(text)]
    forced = _forced([text for text in overrides if not _group(text)])
    try:
        with initialize_config_dir(str(path.parent), version_base="1.3"):
            composed = hydra_compose(path.stem, [*hydra_search_path([*folders, BASE.parent]), *chosen, *forced])
        values = OmegaConf.to_container(composed, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"pre-encode: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys and values, found a {type(values).__name__}")
    return {str(key): value for key, value in values.items() if value != "???"}


def _group(text: str) -> str | None:
    """Name the group that an override chooses from, if it does."""
    name = text.lstrip("+").partition("=")[0]
    return name if name in GROUPS else None


def _choice(text: str, folders: list[Path]) -> str:
    """Let a file of a group, wherever it is, set settings at the top level."""
    from solfa.config import nearest
    from solfa.environment.search_path import SEARCH_PATH
    from solfa.errors import ConfigError
    from solfa.experiments.compose.overrides import find_groups

    group, chosen = _group(text), text.partition("=")[2]
    names = find_groups(folders).get(group or "", [])
    if chosen not in names:
        other = f"; any other codec is pretrained_name={chosen or 'NAME'}" if group == "model" else ""
        raise ConfigError(
            f"{text}: expected one of {', '.join(names)}{nearest(chosen, names)}; your own are "
            f"pre_encode/{group}/NAME.yaml in a folder that {SEARCH_PATH} lists{other}"
        )
    return f"+{group}@_global_={chosen}"


def _forced(overrides: list[str]) -> list[str]:
    """Check the keys, and let plain overrides add keys that the file lacks."""
    from solfa.encoding.pre_encode.config import check_key
    from solfa.experiments.compose.overrides import parse_override

    forced = []
    for text in overrides:
        check_key(parse_override(text).key_or_group, text)
        plain = not text.startswith(("+", "~"))
        forced.append(f"++{text}" if plain else text)
    return forced


def print_report(report: "PreEncodeReport") -> None:
    """Print what a run did, and anything that needs a closer look."""
    from solfa.store.failed_recordings import counted, failed_recordings
    from solfa.store.shard_reader import FailedClip

    new = f" ({report.new_items:,} in this run)" if report.new_items else ""
    idle = "nothing new could be encoded" if report.failures else "nothing to do: everything is already encoded"
    speed = f"{report.speed:.1f}x real time" if report.new_items else idle
    clips = [FailedClip(failure.id, failure.error, failure.path, failure.relpath) for failure in report.failures]
    facts = [
        ("items", f"{report.items:,}{new}"),
        ("audio", f"{duration(report.new_seconds)} in this run"),
        ("failed", counted(clips) + (", listed in failures.jsonl" if report.failures else "")),
        ("speed", speed),
    ]
    if report.rank.world_size > 1:
        facts.insert(0, ("rank", f"{report.rank.rank} of {report.rank.world_size}"))
    print_facts(f"[bold]{visible(str(report.path))}[/] · {visible(report.codec)}", facts)
    print_failures([(failed.name, failed.error) for failed in failed_recordings(clips)])
    for note in report.notes:
        console.print(f"[yellow]note[/] {visible(note)}", soft_wrap=True, highlight=False)
