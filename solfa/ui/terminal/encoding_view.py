"""An encoding run in the terminal: what it plans, how far it is, how fast, how long the rest takes; and how to stop it.

In a file or pipe there is no bar; a line every half minute says how far it is.
"""

import time
from contextlib import ExitStack
from types import TracebackType

from rich.console import RenderableType
from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from solfa.codecs.default_name import ABOUT_DEFAULT_CODEC, ABOUT_SCALES, DEFAULT_CODEC, WITH_SCALES
from solfa.codecs.spec import parse_spec
from solfa.encoding.progress import Totals
from solfa.environment.stop_signals import Stopped, StopSignals
from solfa.errors import Interrupted
from solfa.spelling import duration, plural
from solfa.store.schema import DatasetInfo
from solfa.ui.terminal.console import Bar, console, errors
from solfa.ui.terminal.pace import Pace

LINE_SECONDS = 30.0
BAR_WIDTH = 16


class EncodeView:
    """Shows the progress of an encoding run, and ends it in order when a signal asks for it."""

    def __init__(self, first: Bar | None = None) -> None:
        self._signals = StopSignals(lambda sentence: errors.print(sentence, highlight=False))
        self._open = ExitStack()
        self._listens = False
        self._told = time.monotonic()
        self._bar: Bar | EncodingBar = first or Bar("planning", "recordings", has_total=False)

    def __enter__(self) -> "EncodeView":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()
        self._open.close()
        if isinstance(error, Stopped):
            raise Interrupted("interrupted; run the same command to continue", error.exit_code) from None

    def waiting(self) -> None:
        """Stop here if a signal has arrived. Signals end the process, as ever, until there is something to lose."""
        if not self._listens:
            self._open.enter_context(self._signals)
            self._listens = True
        if self._signals.number:
            raise Stopped(self._signals.number)

    def settled(self, info: DatasetInfo, *, is_new: bool) -> None:
        """Say what to know about two codecs: the one that comes with Solfa, and one that no model can learn from."""
        self.waiting()
        if is_new and parse_spec(info.codec).head == DEFAULT_CODEC:
            console.print(f"[dim]{DEFAULT_CODEC}: {ABOUT_DEFAULT_CODEC}[/]", highlight=False)
        if is_new and parse_spec(info.codec).head == WITH_SCALES:
            console.print(f"{WITH_SCALES}: {ABOUT_SCALES}", highlight=False)

    def listing(self, objects: int) -> None:
        """Show how many objects of a bucket have been listed; in a file or pipe, say so every half minute."""
        self.waiting()
        if isinstance(self._bar, Bar):
            self._bar(objects, note=f"{objects:,} objects listed")
        if not errors.is_terminal and time.monotonic() - self._told >= LINE_SECONDS:
            self._told = time.monotonic()
            errors.print(f"planning: {objects:,} objects listed", highlight=False)

    def planning(self, recordings: int) -> None:
        """Show how many recordings have been scanned."""
        self.waiting()
        if isinstance(self._bar, Bar) and recordings % 16 == 0:
            self._bar(recordings)

    def verifying(self, done: int, total: int) -> None:
        """Show how much of a dataset has been verified, before and after it is repaired."""
        if not isinstance(self._bar, Bar):
            self._show(Bar("verifying", "shards"))
        assert isinstance(self._bar, Bar)
        self._bar(done, total)

    def loading(self, encoders: int) -> None:
        """Show that the encoders are starting."""
        self._show(Bar(f"loading the codec, {plural(encoders, 'encoder')}", "", has_total=False))

    def encoding(self, done: Totals, clips: int, seconds: float) -> None:
        """Show what is done."""
        self.waiting()
        if not isinstance(self._bar, EncodingBar):
            self._show(EncodingBar(clips, seconds))
        assert isinstance(self._bar, EncodingBar)
        self._bar.show(done)

    def _show(self, bar: "Bar | EncodingBar") -> None:
        self._bar.stop()
        self._bar = bar
        self._bar.start()


class EncodingBar:
    """How much audio of a run is encoded. It moves between reports, at the pace so far, and so does the time left."""

    def __init__(self, clips: int, seconds: float) -> None:
        self._clips = clips
        self._pace = Pace(seconds, time.monotonic())
        self._told = time.monotonic()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("encoding"),
            _PaceBar(self._pace),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            _TimeLeft(self._pace),
            console=errors,
            transient=True,
            disable=not errors.is_terminal,
        )
        self._task = self._progress.add_task("", total=None)

    def start(self) -> None:
        """Show it, unless the output is not a terminal."""
        self._progress.start()

    def stop(self) -> None:
        """Remove it."""
        self._progress.stop()

    def show(self, done: Totals) -> None:
        """Take in what is done."""
        now = time.monotonic()
        self._pace.report(done.seconds, now)
        words = f"{done.clips:,}/{self._clips:,} clips"
        if self._pace.rate:
            words += f" {self._pace.rate:.1f}x real time"
        if done.failed:
            words += f", {len(done.failed):,} failed"
        self._progress.update(self._task, description=words)
        if not errors.is_terminal and now - self._told >= LINE_SECONDS:
            self._told = now
            left = self._pace.seconds_left(now)
            errors.print(f"encoding: {words}" + (f", {duration(left)} left" if left else ""), highlight=False)


class _PaceBar(ProgressColumn):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> RenderableType:
        reached = self._pace.reached(time.monotonic())
        return ProgressBar(total=max(self._pace.total, 1e-9), completed=reached, width=BAR_WIDTH)


class _TimeLeft(ProgressColumn):
    def __init__(self, pace: Pace) -> None:
        super().__init__()
        self._pace = pace

    def render(self, task: Task) -> RenderableType:
        left = self._pace.seconds_left(time.monotonic())
        if left is None:
            return Text("ETA -:--:--", style="progress.remaining")
        minutes, seconds = divmod(round(left), 60)
        return Text(f"ETA {minutes // 60}:{minutes % 60:02d}:{seconds:02d}", style="progress.remaining")
