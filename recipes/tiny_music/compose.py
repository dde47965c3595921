"""Compose and render captioned pieces, to train a model on: `python recipes/tiny_music/compose.py OUT --hours 12`.

OUT/train, valid, held-out      10 s each, mono, 24 kHz
OUT/train.csv, valid.csv, held-out.csv
                                path, caption, and what the piece is made of: sources for `solfa encode`

A piece depends on the seed, its split and its number alone. A piece that is there is kept, so that more hours, or the
same ones after a stop, only render what is missing; the tables are written last.
"""

import argparse
import csv
import io
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

from composition import Note, compose
from rendering import SAMPLE_RATE, Player, find_soundfont
from spec import SECONDS, Spec, Split, draw_spec, piece_rng
from wordings import SHARPS, word_piece

from solfa.audio import write_audio
from solfa.errors import SolfaError
from solfa.files import replace_atomically

NUM_VALID, NUM_HELD_OUT = 64, 200
COLUMNS = (
    *("path", "caption", "family", "instrument", "pattern", "tonic", "mode", "bpm", "beats_per_bar"),
    "density",
)


class Piece(NamedTuple):
    """A piece before it is rendered."""

    split: Split
    number: int
    seed: int
    spec: Spec
    notes: list[Note]
    caption: str

    @property
    def path(self) -> str:
        """Where it is, relative to the table."""
        return f"{self.split}/{self.seed}-{self.number:06d}.flac"

    @property
    def row(self) -> tuple[str, ...]:
        """The values of the columns; drums have no key."""
        spec = self.spec
        key = ("", "") if spec.is_drums else (SHARPS[spec.tonic], spec.mode)
        made = (spec.instrument.family, spec.instrument.name, spec.pattern, *key, spec.bpm, spec.beats_per_bar)
        return tuple(map(str, (self.path, self.caption, *made, spec.density)))


def draw_piece(seed: int, split: Split, number: int) -> Piece:
    """Draw a piece: what it is, its notes and its caption."""
    rng = piece_rng(seed, split, number)
    spec = draw_spec(rng, split)
    return Piece(split, number, seed, spec, compose(spec, rng), word_piece(spec, rng, split))


def render_pieces(pieces: list[Piece], out: Path, num_processes: int) -> Iterator[Piece]:
    """Render what is not there yet, and yield each piece when it is."""
    missing = [piece for piece in pieces if not (out / piece.path).exists()]
    find_soundfont()  # before any process starts
    yield from (piece for piece in pieces if (out / piece.path).exists())
    with Pool(num_processes, _start, (str(out),)) as pool:
        yield from pool.imap_unordered(_render, missing, chunksize=16)


_PLAYER: dict[str, Player] = {}


def _start(out: str) -> None:
    _PLAYER[out] = Player(find_soundfont())


def _render(piece: Piece) -> Piece:
    (out, player) = next(iter(_PLAYER.items()))
    path = Path(out) / piece.path
    path.parent.mkdir(parents=True, exist_ok=True)
    write_audio(path, player.render(piece.spec, piece.notes)[None], SAMPLE_RATE)
    return piece


def write_table(out: Path, split: Split, pieces: list[Piece]) -> Path:
    """Write the table of a split."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *(piece.row for piece in pieces)])
    path = out / f"{split}.csv"
    replace_atomically(path, text.getvalue().encode())
    return path


def main() -> None:
    """Read the arguments, render, and say how long it took."""
    parser = argparse.ArgumentParser(description="Compose and render captioned pieces.")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--hours", type=float, default=12.0, help="Of what is trained on.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    counts: dict[Split, int] = {"held-out": NUM_HELD_OUT, "valid": NUM_VALID}
    counts["train"] = round(arguments.hours * 3600 / SECONDS)
    try:
        for split, count in counts.items():
            began = time.perf_counter()
            pieces = [draw_piece(arguments.seed, split, number) for number in range(count)]
            for done, _ in enumerate(render_pieces(pieces, arguments.out, arguments.processes), 1):
                if done % 100 == 0 or done == count:
                    print(f"\r{split}: {done} of {count}", end="", file=sys.stderr, flush=True)
            path = write_table(arguments.out, split, pieces)
            hours = count * SECONDS / 3600
            print(f"\r{path}: {count} pieces, {hours:.1f} hours, in {time.perf_counter() - began:.0f} s")
    except SolfaError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
