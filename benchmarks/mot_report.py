"""What audio experts on a text model have learned: held-out loss with and without captions, curves, clips to look at.

    python benchmarks/mot_report.py XPS/CAPTIONED XPS/BLIND clips.solfa --out report/

Both experiments are of `mot/smollm2-clips`, the second with `text.dropout=1`: it never reads a caption. Held-out clips
are scored from their beginning, in nats per code: by the first with their own captions, with those of other clips and
with none; by the second without any. Differences are paired, with 95 % intervals over recordings. The text side is
compared with a base that was loaded afresh. Pictures: `curves.svg` and `clips.svg`.
"""

import argparse
import base64
import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from waveform_heads.report import paired_interval

from solfa.codecs import Encoded
from solfa.data import OpenedSource, Source, open_sources
from solfa.generate import ClipRequest, TextModel, load_model
from solfa.models import cross_entropy, load_base
from solfa.ui import Markup, element
from solfa.ui.clip_files import write_sample
from solfa.ui.html.picture import spectrogram_db, spectrogram_png

BATCH = 8
PROMPTS = (
    "The capital of France is",
    "Write a haiku about the sea.",
    "2, 4, 8, 16,",
    "Solfège is a way of",
    "def fibonacci(n):",
)
CAPTIONED, BLIND = "#8a3f7c", "#2f6f9f"
INK, QUIET, GRID = "#22202a", "#6a6674", "#e4e0e6"


def score(model: TextModel, clips: OpenedSource, texts: Sequence[str | None], num_frames: int) -> list[float]:
    """Give the nats per code of the beginning of each clip after its text."""
    network, scores = model.network.eval(), {}
    order = sorted(range(len(clips)), key=lambda index: min(num_frames, int(clips.num_frames[index])))
    for start in range(0, len(order), BATCH):
        rows = order[start : start + BATCH]
        arrays = [torch.from_numpy(clips[row].array[:num_frames].astype(np.int64)) for row in rows]
        codes = torch.nn.utils.rnn.pad_sequence(arrays, batch_first=True).transpose(1, 2)
        mask = torch.arange(codes.shape[2]) < torch.tensor([len(array) for array in arrays])[:, None]
        with torch.inference_mode():
            logits = network(codes, mask, model.texts.prefix([texts[row] for row in rows]))
            for place, row in enumerate(rows):
                one = slice(place, place + 1)
                counted = mask[one, None].expand_as(codes[one])
                nats = cross_entropy(logits[one], codes[one], counted)
                scores[row] = float(nats.sum()) / int(counted.sum())
    return [scores[row] for row in range(len(clips))]


def table(scores: dict[str, list[float]], kinds: Sequence[str], recordings: Sequence[int]) -> str:
    """Write the mean nats of each kind of clip, and what captions are worth."""
    lines = [f"| clips | number | {' | '.join(scores)} |", f"|---|---|{'---|' * len(scores)}"]
    for kind in ("all", *sorted(set(kinds))):
        rows = [row for row, found in enumerate(kinds) if kind in ("all", found)]
        cells = " | ".join(f"{mean(values[row] for row in rows):.3f}" for values in scores.values())
        lines.append(f"| {kind} | {len(rows)} | {cells} |")
    own = next(iter(scores))
    for other in list(scores)[1:]:
        centre, half = paired_interval(scores[own], scores[other], recordings)
        lines.append(f"\n{own} minus {other}: {centre:+.3f} ± {half:.3f}")
    return "\n".join(lines) + "\n"


def text_side(model: TextModel) -> str:
    """Compare the text side with a base that was loaded afresh."""
    ours, fresh = model.network.base, load_base(model.network.config.base, model.network.config.base_dtype)
    equal = answered = 0
    for prompt in PROMPTS:
        ids = torch.tensor([fresh.tokenize(prompt, 512)])
        equal += int(torch.equal(ours.logits(ids), fresh.logits(ids)))
        answered += int(ours.answer(prompt, 24) == fresh.answer(prompt, 24))
    return f"text: logits of {equal} of {len(PROMPTS)} prompts equal to the bit, {answered} answers the same\n"


def losses(folder: Path) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """Read the training loss by update and the validation loss by epoch, in updates."""
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    train = [(event.step, event.value) for event in events.Scalars("train/loss")]
    history: list[dict[str, Any]] = json.loads((folder / "history.json").read_text())
    per_epoch = json.loads((folder / "config.json").read_text())["optim"]["updates_per_epoch"]
    return train, [((number + 1) * per_epoch, epoch["valid"]["loss"]) for number, epoch in enumerate(history)]


def curves(captioned: Path, blind: Path) -> Markup:
    """Draw both experiments: thin lines are training, dots validation."""
    width, height, left, top, bottom = 640, 320, 46, 40, 34
    read = {"with captions": (CAPTIONED, *losses(captioned)), "without": (BLIND, *losses(blind))}
    values = [value for _, train, valid in read.values() for _, value in (*train, *valid)]
    last = max(step for _, train, valid in read.values() for step, _ in (*train, *valid))
    low, high = min(values), max(values)

    def place(step: float, value: float) -> tuple[float, float]:
        across = left + (width - left - 14) * step / last
        return across, top + (height - top - bottom) * (high - value) / (high - low)

    parts = [element("rect", width="100%", height="100%", fill="#ffffff")]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        across, y = place(share * last, high - share * (high - low))
        parts += [
            element("line", x1=left, y1=y, x2=width - 14, y2=y, stroke=GRID),
            words(f"{high - share * (high - low):.2f}", left - 6, y + 4, "end"),
            words(f"{share * last:.0f}", across, height - 16, "middle"),
        ]
    parts += [words("nats per code", left, 16), words("updates", width - 14, height - 3, "end")]
    for number, (title, (colour, train, valid)) in enumerate(read.items()):
        line = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in train)
        dots = [element("circle", cx=x, cy=y, r=4, fill=colour) for x, y in (place(*point) for point in valid)]
        parts += [
            element("polyline", points=line, fill="none", stroke=colour, stroke_width=1, opacity=0.6),
            *dots,
            element("circle", cx=width - 260 + 120 * number, cy=12, r=4, fill=colour),
            words(title, width - 250 + 120 * number, 16),
        ]
    return drawing(parts, width, height)


def words(text: str, x: float, y: float, anchor: str = "start") -> Markup:
    return element("text", text, x=x, y=y, fill=QUIET, text_anchor=anchor)


def drawing(parts: Sequence[Markup], width: int, height: int) -> Markup:
    about = {"xmlns": "http://www.w3.org/2000/svg", "view_box": f"0 0 {width} {height}", "font_size": 11}
    return element("svg", *parts, **about, width=width, height=height, font_family="system-ui, sans-serif")


def clips_picture(rows: Sequence[tuple[str, Any, Any]], sample_rate: int) -> Markup:
    """Show spectrograms of held-out clips, as the codec gives them back, beside those generated for their captions."""
    width, height, gap = 300, 110, 30
    parts = [element("rect", width="100%", height="100%", fill="#ffffff")]
    for number, (caption, original, generated) in enumerate(rows):
        y = number * (height + gap)
        parts.append(words(caption, 6, y + 18))
        for column, audio in enumerate((original, generated)):
            levels = spectrogram_db(audio, sample_rate, width)
            png = base64.b64encode(spectrogram_png(levels, float(levels.max()))).decode()
            at = {"x": 6 + column * (width + 12), "y": y + gap - 4, "width": width, "height": height}
            href, ratio = f"data:image/png;base64,{png}", "none"
            parts.append(element("image", href=href, preserveAspectRatio=ratio, **at))
    return drawing(parts, 2 * width + 24, len(rows) * (height + gap) + 6)


def generated_clips(model: TextModel, clips: OpenedSource, rows: Sequence[int], seconds: float, out: Path) -> Markup:
    """Generate a clip for the captions of some held-out clips; write them, and show them beside these."""
    codec = model.codec
    requests = [ClipRequest(f"clip-{row:04d}", seconds, row, clips[row].caption) for row in rows]
    made = {clip.name: clip for clip in model.draw(requests, {}, lambda done, total: None)}
    shown = []
    for request, row in zip(requests, rows, strict=True):
        write_sample(made[request.name], out)
        array = torch.from_numpy(clips[row].array[: round(seconds * codec.frame_rate)].astype(np.int64))
        original = codec.decode(Encoded(array[None], len(array) * codec.hop_length))[0]
        shown.append((str(clips[row].caption), original.numpy(), made[request.name].samples()))
    return clips_picture(shown, codec.sample_rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captioned", type=Path)
    parser.add_argument("blind", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--per-kind", type=int, default=1, help="generated clips of each of the six largest kinds")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    arguments.out.mkdir(parents=True, exist_ok=True)
    clips = open_sources([Source.model_validate({"path": arguments.dataset, "where": {"split": "valid"}})])
    captions, kinds = clips.values("caption"), clips.values("kind")
    names = [f"{source}/{title}" for source, title in zip(clips.values("source"), clips.values("title"), strict=True)]
    recordings = [names.index(name) for name in names]
    # Half the clips away is another recording, and mostly another kind.
    others = [captions[(row + len(captions) // 2) % len(captions)] for row in range(len(captions))]
    loaded = load_model(arguments.captioned)
    captioned, blind = loaded.generator, load_model(arguments.blind).generator
    assert isinstance(captioned, TextModel) and isinstance(blind, TextModel)
    seconds = loaded.trained.config["dataset"]["segment_seconds"]
    num_frames = round(seconds * captioned.codec.frame_rate)
    none = [None] * len(captions)
    scores = {
        "own captions": score(captioned, clips, captions, num_frames),
        "others' captions": score(captioned, clips, others, num_frames),
        "no captions": score(captioned, clips, none, num_frames),
        "trained without": score(blind, clips, none, num_frames),
    }
    told = table(scores, kinds, recordings) + "\n" + text_side(captioned)
    (arguments.out / "scores.json").write_text(json.dumps({"scores": scores, "kinds": kinds, "names": names}))
    (arguments.out / "report.md").write_text(told)
    print(told)
    (arguments.out / "curves.svg").write_text(str(curves(arguments.captioned, arguments.blind)))
    largest = sorted(set(kinds), key=kinds.count, reverse=True)[:6]
    rows = [
        row for kind in largest for row in [at for at, found in enumerate(kinds) if found == kind][: arguments.per_kind]
    ]
    picture = generated_clips(captioned, clips, rows, seconds, arguments.out)
    (arguments.out / "clips.svg").write_text(str(picture))


if __name__ == "__main__":
    main()
