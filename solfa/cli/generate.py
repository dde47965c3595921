"""`solfa generate`: generate audio with a trained model."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solfa.spelling import plural
from solfa.ui.terminal.console import console, progress_bar, visible

if TYPE_CHECKING:
    from solfa.codecs.protocol import Codec
    from solfa.generate.request import ClipRequest, Inpainting, Variation
    from solfa.store.dataset import Dataset

EXAMPLES = """
[bold]Examples[/]

  solfa generate 899630c8 --text "a warm piano, slowly" --seconds 10 --num 4 --out piano/

  solfa generate 899630c8 --captions captions.csv --out all/ --format flac

  solfa generate 899630c8 --set genre=jazz --set bpm=120 --seconds 8 --out jazz/

  solfa generate 899630c8 --prompt riff.wav --prompt-seconds 3 --seconds 12 --out more/

  solfa generate 899630c8 --adapter 5d0b2a17 --adapter 77c1e0aa=0.5 --out mixed/

  solfa generate 3cadb66d --init song.wav --strength 0.6 --text "the same on a harp" --out harp/

  solfa generate 3cadb66d --inpaint song.wav --from 4 --to 9 --num 4 --out takes/

  solfa generate dc53b78e --num 100 --seconds 1 --reject-lowest 0.4 --reject-highest 0.05 --out digits/

  solfa generate dc53b78e --num 16 --seconds 1 --sort --out ranked/

  solfa generate dc53b78e --num 8 --seconds 10 --nearest --out heard/

  solfa generate dc53b78e --seconds 600 --temperature 0.9 --semantics exact --out long/ &

  tail -c +59 -f long/clip-000.partial.wav | aplay -f FLOAT_LE -r 16000

Every clip has its own seed, so it comes out the same no matter what else is generated with it. Next to each clip there
are an image of its spectrogram and a JSON file that says how it was made. Waveform models write each clip as they
generate it, to NAME.partial.wav: you can play it at any time, and it stays if the run is interrupted.
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    # Extra arguments get an answer of our own.
    app.command("generate", epilog=EXAMPLES, context_settings={"allow_extra_args": True})(generate)


def generate(
    context: typer.Context,
    experiment: Annotated[
        str, typer.Argument(metavar="SIG", help="Signature (or its first characters), folder or name of the model.")
    ],
    epoch: Annotated[
        int | None,
        typer.Option(min=0, help="Use the weights that the experiment kept of this epoch.", show_default="the best"),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Describe the sound, for models conditioned on text.")] = None,
    captions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One clip per caption: .txt (one per line), .csv or .jsonl.")
    ] = None,
    conditions: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Set another condition; can be repeated.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.001, help="Length of each clip in seconds.", show_default="10, or that of the recording"),
    ] = None,
    num: Annotated[int, typer.Option(min=1, help="Number of clips, or of clips per caption.")] = 1,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the clips.")] = Path("generated"),
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first clip; each following clip adds one.")] = 0,
    prompt: Annotated[
        Path | None, typer.Option("--prompt", "--extend", metavar="FILE", help="Audio file to continue.")
    ] = None,
    prompt_seconds: Annotated[
        float | None, typer.Option(help="Use only this many seconds of the prompt.", show_default="all")
    ] = None,
    init: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Make another version of this recording (models of latents).")
    ] = None,
    strength: Annotated[
        float | None, typer.Option(help="How much of --init may change: 0 nothing, 1 everything.", show_default="0.6")
    ] = None,
    inpaint: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Replace a part of this recording (models of latents).")
    ] = None,
    inpaint_from: Annotated[
        float | None, typer.Option("--from", metavar="SECONDS", help="Where the part that --inpaint replaces begins.")
    ] = None,
    inpaint_to: Annotated[
        float | None, typer.Option("--to", metavar="SECONDS", help="Where the part that --inpaint replaces ends.")
    ] = None,
    temperature: Annotated[
        float | None,
        typer.Option(help="Higher is more varied; 0 always takes the most probable.", show_default="as configured"),
    ] = None,
    semantics: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="What a temperature means for mixture heads: heuristic, or exact (probabilities to the power 1/T).",
            show_default="as configured",
        ),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(help="Choose among the K most probable codes; 0: off.", show_default="as configured")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(help="Keep the most probable codes that sum to P; 0: off.", show_default="as configured"),
    ] = None,
    guidance_scale: Annotated[
        float | None,
        typer.Option("--guidance", help="How closely to follow the conditions; 1: off.", show_default="as configured"),
    ] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            help="Draw so many of each clip, and keep the one that fits its conditions best, as the model hears it, "
            "and its listener if it has one (language models with model.history_dropout).",
            show_default="as configured",
        ),
    ] = None,
    guidance_from: Annotated[
        float | None,
        typer.Option(help="Models of latents: guide from this time on; 1 is noise.", show_default="as configured"),
    ] = None,
    guidance_to: Annotated[
        float | None,
        typer.Option(help="Models of latents: guide until this time; 0 is the clip.", show_default="as configured"),
    ] = None,
    guidance_rescale: Annotated[
        float | None,
        typer.Option(
            help="Models of latents: undo what guidance does to loudness, from 0 to 1.", show_default="as configured"
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Models of latents: euler, heun, dpm++ or ping-pong.", show_default="as configured"
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Models of latents: steps from noise to a clip.", show_default="as configured"),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Models of latents: how steps are spaced, even or log_snr.",
            show_default="as configured",
        ),
    ] = None,
    window_seconds: Annotated[
        float | None,
        typer.Option(help="Models of latents: draw longer clips in windows.", show_default="the length in training"),
    ] = None,
    overlap: Annotated[
        float | None,
        typer.Option(
            help="Models of latents: the share of a window that overlaps the one before.", show_default="as configured"
        ),
    ] = None,
    reject_lowest: Annotated[
        float | None,
        typer.Option(help="Drop this share of the clips, the least likely (waveform models).", show_default="0"),
    ] = None,
    reject_highest: Annotated[
        float | None,
        typer.Option(help="Drop this share of the clips, the most likely (waveform models).", show_default="0"),
    ] = None,
    sort: Annotated[
        bool, typer.Option("--sort", help="Name clips by their rank in likelihood (waveform models).")
    ] = False,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Language models on a CPU: fp32, fp16, int8 or int4; fewer bits run faster.", show_default="fp32"
        ),
    ] = None,
    adapters: Annotated[
        list[str] | None,
        typer.Option(
            "--adapter", metavar="SIG=FACTOR", help="Add what an adapter learned, times FACTOR; can be repeated."
        ),
    ] = None,
    audio_format: Annotated[str, typer.Option("--format", help="wav, flac or ogg.")] = "wav",
    codec: Annotated[
        str | None, typer.Option(help="Decode with this codec.", show_default="the dataset's codec")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing clips with the same name.")] = False,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Write NAME.partial.wav while generating.",
            show_default="for models that draw samples in order",
        ),
    ] = None,
    nearest: Annotated[
        bool,
        typer.Option("--nearest", help="Name the training clip that each clip is nearest to, and say if it is a copy."),
    ] = False,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Run the custom solver code this model was trained with.")
    ] = False,
) -> None:
    """Generate audio with a trained model."""
    from solfa.cli.adapter_option import read_adapters
    from solfa.cli.state_spaces_options import refuse_key_values

    # Whatever can be refused is refused before the model and its codec are loaded, which may take a minute.
    refuse_key_values([experiment, *context.args], _flags(context))
    _check_words(audio_format, weights, semantics)
    _check_out(out)
    added = read_adapters(adapters or [])

    from solfa.cli.clip_folder import generate_into
    from solfa.generate.model import find_folder, load_trained, with_adapters
    from solfa.generate.request import ClipRequest, check_files, check_requests, edited_seconds
    from solfa.generate.trained_folder import read_trained
    from solfa.generate.training_copies import training_data
    from solfa.generate.weight_layout import weight_layout
    from solfa.ui.clip_files import ranked_files

    folder = find_folder(experiment)
    known = training_data(folder) if nearest else None
    layout = None if weights is None else weight_layout(weights)
    edit = _edit(init, strength, inpaint, inpaint_from, inpaint_to)
    length = 10.0 if seconds is None else seconds
    wanted = ClipRequest("clip", length, seed, text, _conditions(conditions or []), prompt, prompt_seconds, edit)
    if edit is not None and seconds is None:
        wanted = replace(wanted, seconds=edited_seconds(wanted))
    requests = _requests(wanted, captions, num)
    _refuse_existing(out, requests, audio_format, overwrite, is_streamed=stream is not False)
    check_files(requests)
    ranked = ranked_files(out, [request.name for request in requests])
    drawing = {"temperature": temperature, "semantics": semantics, "top_k": top_k, "top_p": top_p}
    drawing |= {"guidance_scale": guidance_scale, "reject_lowest": reject_lowest, "reject_highest": reject_highest}
    drawing |= {"sort": sort or None, "sampler": sampler, "steps": steps, "grid": grid}
    drawing |= {"guidance_from": guidance_from, "guidance_to": guidance_to, "guidance_rescale": guidance_rescale}
    drawing |= {"window_seconds": window_seconds, "overlap": overlap, "candidates": candidates}
    options: dict[str, Any] = {name: value for name, value in drawing.items() if value is not None}
    _check_drawing(folder, requests, options, trust_code=trust_code)
    trained = with_adapters(read_trained(folder, epoch=epoch), added)
    check_requests(requests, trained.data_facts)
    model = load_trained(trained, device=device, codec=codec, weights=layout, trust_code=trust_code)
    written = generate_into(out, model, requests, options, f".{audio_format}", stream)
    _remove_replaced(ranked, written)
    if known is not None:
        _name_nearest(out, written, f".{audio_format}", known, model.codec)
    console.print(f"{plural(len(written), 'clip')} in [bold]{visible(str(out))}[/]", soft_wrap=True, highlight=False)


def _check_words(audio_format: str, weights: str | None, semantics: str | None) -> None:
    """Refuse words that an option does not know."""
    _expect("--format", audio_format, ("wav", "flac", "ogg"))
    if weights is not None:
        _expect("--weights", weights, ("fp32", "fp16", "int8", "int4"))
    if semantics is not None:
        _expect("--semantics", semantics, ("heuristic", "exact"))


def _check_out(out: Path) -> None:
    """Refuse a place that no clip can be written to."""
    from solfa.errors import ConfigError
    from solfa.files.free_folder import expect_writable

    if out.exists() and not out.is_dir():
        raise ConfigError(f"--out: expected a folder, found the file {out}")
    expect_writable(out, "choose another `out`")


def _check_drawing(
    folder: Path, requests: "Sequence[ClipRequest]", options: Mapping[str, Any], *, trust_code: bool
) -> None:
    """Refuse what the model's generator cannot do, as far as that is known before it is loaded."""
    from solfa.generate.catalogue import find_generator
    from solfa.generate.generator import check_edits, check_options
    from solfa.generate.trained_folder import read_solver

    # Which kinds of temperature there are depends on the model's head; `generate_into` checks that.
    known_early = {name: value for name, value in options.items() if name != "semantics"}
    generator = find_generator(read_solver(folder), trust_code=trust_code)
    check_edits(generator, requests)
    check_options(generator, known_early)


def _edit(
    init: Path | None, strength: float | None, inpaint: Path | None, start: float | None, stop: float | None
) -> "Variation | Inpainting | None":
    """Read which recording to change, and how."""
    from solfa.errors import ConfigError
    from solfa.generate.request import Inpainting, Variation

    if init is not None and inpaint is not None:
        raise ConfigError("--init, --inpaint: expected only one of them, found both")
    if strength is not None and init is None:
        raise ConfigError("--strength: it needs --init FILE; add it, or leave --strength out")
    if inpaint is None and (start is not None or stop is not None):
        raise ConfigError("--from, --to: they need --inpaint FILE; add it, or leave them out")
    if init is not None:
        return Variation(init) if strength is None else Variation(init, strength)
    if inpaint is None:
        return None
    if start is None or stop is None:
        raise ConfigError("--inpaint: expected --from and --to as well, in seconds of the recording")
    return Inpainting(inpaint, start, stop)


def _remove_replaced(ranked: Sequence[Path], written: Collection[str]) -> None:
    """Remove the files of clips that have another rank now."""
    for path in ranked:
        if path.stem not in written:
            path.unlink()


def _name_nearest(
    out: Path, written: Sequence[str], extension: str, known: "Sequence[Dataset]", codec: "Codec"
) -> None:
    """Print the training clip that each clip is nearest to, and note it in the clip's JSON file."""
    import json

    from solfa.audio.reader import read_audio
    from solfa.files.json_objects import parse_object
    from solfa.files.whole_files import replace_atomically
    from solfa.generate.training_copies import spell_nearest, training_finder

    with progress_bar("decoding training clips", "clips") as bar:
        finder = training_finder(known, codec, bar)
    for name in written:
        audio = read_audio(out / f"{name}{extension}", sample_rate=codec.sample_rate)
        found = finder.nearest(audio, codec.sample_rate)
        colour = "yellow" if found is not None and found.is_copy else "dim"
        told = f"{spell_nearest(found)} ({0 if found is None else found.landmarks} landmarks agree)"
        console.print(f"{visible(name)}: [{colour}]{visible(told)}[/]", soft_wrap=True, highlight=False)
        note = out / f"{name}.json"
        value = None if found is None else {"is_copy": found.is_copy, **found._asdict()}
        content = json.dumps({**parse_object(note.read_bytes()), "nearest": value}, indent=2, ensure_ascii=False)
        replace_atomically(note, content.encode("utf-8", errors="backslashreplace"))


def _requests(wanted: "ClipRequest", captions: Path | None, num: int) -> "list[ClipRequest]":
    from solfa.errors import ConfigError
    from solfa.generate.request_files import read_requests
    from solfa.generate.takes import takes_of

    if captions is not None:
        if wanted.text is not None:
            raise ConfigError("--captions, --text: expected only one of them, found both")
        each = read_requests(captions, wanted)
        if num == 1:
            return each
        return [
            replace(one, name=f"{one.name}-{take}", seed=one.seed + take * len(each))
            for one in each
            for take in range(num)
        ]
    return takes_of(wanted, num)


def _flags(context: typer.Context) -> list[str]:
    return [max(parameter.opts, key=len) for parameter in context.command.params if parameter.opts[0].startswith("-")]


def _conditions(values: Sequence[str]) -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    from solfa.errors import ConfigError

    conditions: dict[str, Any] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set: expected NAME=VALUE, found {text!r}")
        try:
            conditions[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise ConfigError(f"--set: expected NAME=VALUE with a YAML value, found {text!r}") from None
    return conditions


def _refuse_existing(
    out: Path, requests: "Sequence[ClipRequest]", audio_format: str, overwrite: bool, is_streamed: bool
) -> None:
    from solfa.errors import ConfigError
    from solfa.files.id_names import flat_name
    from solfa.ui.clip_files import ranked_files
    from solfa.ui.partial_clips import partial_path

    names = [f"{flat_name(request.name)}.{extension}" for request in requests for extension in (audio_format, "json")]
    if is_streamed:
        names += [partial_path(out, request.name).name for request in requests]
    there = [name for name in names if (out / name).exists()]
    there += [path.name for path in ranked_files(out, [request.name for request in requests])]
    if there and not overwrite:
        raise ConfigError(f"{out}: {there[0]} already exists; choose another --out or add --overwrite")


def _expect(option: str, found: str, known: Sequence[str]) -> None:
    from solfa.config import nearest
    from solfa.errors import ConfigError

    if found not in known:
        raise ConfigError(f"{option}: expected {' or '.join(known)}, found {found!r}{nearest(found, known)}")
