"""Run everything once: have music written, synthesise a collection, encode, verify, decode, report."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from solfa.codecs.catalogue import load_codec
from solfa.codecs.default_name import DEFAULT_CODEC
from solfa.demo.collection import write_demo_collection
from solfa.demo.music import write_music
from solfa.encoding.api import encode
from solfa.encoding.decoded_clips import decode_dataset, originals
from solfa.encoding.progress import EncodeReport, Listener
from solfa.evaluate.reconstruction import mel_distance_db, signal_to_noise_db
from solfa.files.free_folder import expect_free
from solfa.generate.built_in.model_release import TINY_MUSIC
from solfa.store.dataset import open_dataset
from solfa.store.verification import Verification, verify
from solfa.ui.html.dataset_page import dataset_page
from solfa.ui.html.report import write_report
from solfa.ui.html.report_data import Fact

MARKER = "solfa-demo.txt"
NUM_DECODED = 4


class Score(NamedTuple):
    """How close a decoded clip is to its original, in decibels."""

    id: str
    signal_to_noise_db: float
    """Large if the waveform was kept; a neural codec keeps the sound, so it may be small although it sounds right."""
    mel_distance_db: float
    """Small if it sounds alike."""


@dataclass(frozen=True)
class DemoResult:
    """Where everything is, and how it went."""

    audio: Path
    dataset: Path
    decoded: Path
    music: tuple[Path, ...]
    """Clips of the model that comes with Solfa; none if it is not in this installation."""
    page: Path
    report: EncodeReport
    verification: Verification
    scores: list[Score]
    """Of the decoded clips."""


def run_demo(
    out: Path, codec_text: str = DEFAULT_CODEC, *, listener: Listener | None = None, say: Callable[[str], None]
) -> DemoResult:
    """Rebuild everything below `out`; a folder with other contents is refused."""
    _prepare(out)
    written = write_music(out / "music", say)
    audio, dataset_path, decoded = out / "audio", out / "demo.solfa", out / "decoded"
    say("synthesising strings, chords, drums, voices and one broken file")
    write_demo_collection(audio)
    say(f"encoding them with {codec_text}")
    report = encode(audio, dataset_path, codec=codec_text, listener=listener)
    say("verifying every file")
    verification = verify(dataset_path)
    dataset = open_dataset(dataset_path)
    codec = load_codec(codec_text)
    say("decoding some clips back to audio")
    some = dataset.select(range(0, len(dataset), max(1, len(dataset) // NUM_DECODED)))
    decode_dataset(some, codec, decoded)
    read_original = originals(audio, codec)
    scores = []
    for clip in some:
        original, sound = read_original(clip), codec.decode(clip).numpy()
        assert original is not None, f"{clip.id} was written a moment ago"
        distance = mel_distance_db(original, sound, codec.sample_rate)
        scores.append(Score(clip.id, signal_to_noise_db(original, sound), distance))
    say("writing the report")
    page = out / "report.html"
    facts = [Fact("Speed", f"{report.speed:.0f}×", "audio-seconds per second")]
    contents = dataset_page(dataset, codec, read_original, title="Solfa demo", more_facts=facts)
    write_report(replace(contents, written_by=TINY_MUSIC, written=written), page)
    music = tuple(out / "music" / f"{clip.id}.wav" for clip in written)
    return DemoResult(audio, dataset_path, decoded, music, page, report, verification, scores)


def _prepare(folder: Path) -> None:
    if (folder / MARKER).is_file():
        shutil.rmtree(folder)
    expect_free(folder, "choose another `out`")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARKER).write_text("Made by `solfa demo`, which rebuilds this folder every time it runs.\n")
