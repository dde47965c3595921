"""Generate clips into a folder, as files that play while they grow if the model draws samples in order."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from solfa.environment.stop_signals import Stopped, StopSignals
from solfa.errors import ConfigError, Interrupted, SolfaError
from solfa.files.free_folder import expect_no_broken_link
from solfa.generate.model import Model
from solfa.generate.request import ClipRequest
from solfa.spelling import plural
from solfa.ui.drawn_clips import draw_and_write, refuse_semantics
from solfa.ui.partial_clips import PartialSamples, partial_path, refuse_ambiguous
from solfa.ui.terminal.console import Bar, console, errors, progress_bar, visible

_MOST_NAMES = 3
"""How many files a message names before it says "and N more"."""


def generate_into(
    out: Path,
    model: Model,
    requests: Sequence[ClipRequest],
    options: Mapping[str, Any],
    extension: str,
    stream: bool | None,
) -> list[str]:
    """Generate, show the progress, and return the names of the files written; `stream=None` streams if it can."""
    _refuse_streaming(model, bool(stream))
    refuse_semantics(model, options.get("semantics"))
    expect_no_broken_link(out, "choose another `out`")
    with _made_if_needed(out), progress_bar("generating", "samples" if model.draws_samples else "frames") as bar:
        if model.draws_samples and stream is not False:
            return _stream(out, model, requests, options, extension, bar)
        return list(draw_and_write(model, requests, options, out, extension, lambda done, total: bar(done, total)))


@contextmanager
def _made_if_needed(out: Path) -> Iterator[None]:
    """Make a folder; what is refused before there is a clip in it leaves none."""
    is_new = not out.exists()
    out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except SolfaError:
        if is_new and not any(out.iterdir()):
            out.rmdir()
        raise


def _refuse_streaming(model: Model, stream: bool) -> None:
    if stream and not model.draws_samples:
        raise ConfigError(
            f"--stream: expected a model that draws samples in order, found one of the {model.trained.solver} solver; "
            "leave it out, and each clip is written once it is complete"
        )


def _stream(
    out: Path,
    model: Model,
    requests: Sequence[ClipRequest],
    options: Mapping[str, Any],
    extension: str,
    bar: Bar,
) -> list[str]:
    """Generate into files that play while they grow; a signal stops it after the current block."""
    refuse_ambiguous([request.name for request in requests])
    written: list[str] = []
    with StopSignals(_say) as signals, PartialSamples(out, model.provenance) as partial:

        def on_step(done: int, total: int) -> None:
            bar(done, total)
            if signals.number:
                raise Stopped(signals.number)

        names = draw_and_write(model, requests, options, out, extension, on_step, partial)
        place = partial_path(out, requests[0].name) if len(requests) == 1 else out / "*.partial.wav"
        console.print(f"playable while it is being generated: {visible(str(place))}", soft_wrap=True, highlight=False)
        try:
            for name in names:
                written.append(name)
        except Stopped as stopped:
            raise Interrupted(_what_is_there(len(written), list(partial.paths.values())), stopped.exit_code) from None
    return written


def _say(sentence: str) -> None:
    errors.print(sentence, highlight=False)  # above the bar


def _what_is_there(written: int, begun: Sequence[Path]) -> str:
    """Say what an interrupted run left behind, and where."""
    named = ", ".join(str(path) for path in begun[:_MOST_NAMES])
    more = f" and {len(begun) - _MOST_NAMES} more" if len(begun) > _MOST_NAMES else ""
    drawn = f"partial audio is in {named}{more}" if begun else "the next was not started"
    return f"interrupted; {plural(written, 'clip')} complete, {drawn}"
