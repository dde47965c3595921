"""Write generated clips into the experiment's folder, to listen to and look at.

samples/
  index.html        all epochs on one page, the latest first
  12/NAME.wav       the audio, float
  12/NAME.png       its mel spectrogram
  12/NAME.json      what it was made from, and by what; written last, so a clip that has one is complete
"""

import json
import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from solfa.audio.writer import write_audio
from solfa.errors import ConfigError
from solfa.files.id_names import flat_name
from solfa.files.whole_files import replace_atomically
from solfa.generate.clip import RANK, GeneratedClip
from solfa.solvers.watchers.protocol import Watcher
from solfa.spelling import plural
from solfa.ui.html.excerpt import levels
from solfa.ui.html.picture import spectrogram_db, spectrogram_png
from solfa.ui.html.samples_page import render_samples
from solfa.ui.sample_listing import read_samples
from solfa.xp.layout import SAMPLES, SAMPLES_PAGE
from solfa.xp.provenance import last_start

logger = logging.getLogger(__name__)


class SampleWriter(Watcher):
    """Writes the clips of every `generate` stage to `folder/samples`, and the page that plays them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / SAMPLES

    def clips(self, stage: str, epoch: int, clips: Sequence[GeneratedClip]) -> None:
        if stage != "generate" or not clips:
            return
        _refuse_twins(clips)
        folder = self.folder / str(epoch)
        folder.mkdir(parents=True, exist_ok=True)
        provenance = last_start(self.folder.parent)
        for clip in clips:
            write_sample(clip, folder, provenance=provenance)
        page = write_index(self.folder)
        told = plural(len(clips), "clip")
        logger.info("generate: wrote %s of epoch %d to %s; open %s", told, epoch, folder, page)


def write_sample(
    clip: GeneratedClip, folder: Path, extension: str = ".wav", provenance: Mapping[str, Any] | None = None
) -> None:
    """Write one clip as audio, picture and metadata; no file is ever half-written."""
    stem, audio = flat_name(clip.file_name), clip.samples()
    write_audio(folder / f"{stem}{extension}", audio, clip.sample_rate)
    if audio.size:
        picture = spectrogram_db(audio, clip.sample_rate)
        replace_atomically(folder / f"{stem}.png", spectrogram_png(picture, float(picture.max())))
    about = {
        "name": clip.name,
        "seconds": audio.shape[1] / clip.sample_rate,
        "sample_rate": clip.sample_rate,
        "channels": audio.shape[0],
        "levels": levels(audio),
        "metadata": dict(clip.metadata),
        "provenance": dict(provenance or {}),
    }
    content = json.dumps(about, indent=2, ensure_ascii=False, default=_plain)
    replace_atomically(folder / f"{stem}.json", content.encode("utf-8", errors="backslashreplace"))


def ranked_files(folder: Path, names: Collection[str]) -> list[Path]:
    """List the files of these clips that carry a rank, from a run that sorted them."""
    if not folder.is_dir():
        return []
    known = {flat_name(name) for name in names}
    begun = ((path, path.stem.removeprefix(RANK)) for path in sorted(folder.iterdir()) if path.name.startswith(RANK))
    return [path for path, rest in begun if rest.partition("-")[2] in known]


def write_index(folder: Path) -> Path:
    """Write the page for everything in `folder`; it is made from the files alone, so a resumed run shows all epochs."""
    page = folder / SAMPLES_PAGE
    title = f"Samples of {folder.resolve().parent.name}"
    replace_atomically(page, render_samples(title, read_samples(folder)).encode("utf-8"))
    return page


def _refuse_twins(clips: Sequence[GeneratedClip]) -> None:
    (name, times), *_ = Counter(clip.name for clip in clips).most_common(1)
    if times > 1:
        raise ConfigError(f"generate: expected unique clip names, found {times} clips called {name!r}")


def _plain(value: Any) -> Any:
    """Convert other values in metadata: arrays and tensors to lists, anything else to text."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) or hasattr(value, "tolist") else str(value)
