"""What one hears and sees of a clip: decoded on demand, beside the recording it was made from, as sound and picture."""

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from solfa.errors import StoreError
from solfa.store.schema import DatasetInfo
from solfa.store.shard_reader import Clip
from solfa.studio.byte_cache import ByteCache
from solfa.ui.html.dataset_page import Beginning, beginning
from solfa.ui.html.excerpt import flac
from solfa.ui.html.picture import codes_png, latents_png, spectrogram_db, spectrogram_png
from solfa.ui.html.report_data import Sound

if TYPE_CHECKING:
    from solfa.codecs.protocol import Codec

Version = Literal["original", "decoded"]
BEGINNING_SECONDS = 60.0
"""How much of a long clip is decoded unless all of it is asked for."""
KEPT_SOUNDS = 3


class ClipSounds:
    """Makes the sounds and pictures of a dataset's clips and keeps some of them."""

    def __init__(self, info: DatasetInfo, sources: Sequence[Path] = ()) -> None:
        """`sources` are folders of original audio; the first that has a clip's recording is taken."""
        self._info, self._sources = info, tuple(sources)
        # One at a time of each: a codec is no place for several threads, and uses all cores anyway. Who wants to know
        # whether there is an original does not wait for it.
        self._locks: dict[Version, threading.Lock] = {"original": threading.Lock(), "decoded": threading.Lock()}
        self._heard: dict[Version, dict[tuple[str, bool], Sound | None]] = {"original": {}, "decoded": {}}
        self._cache = ByteCache()

    def sound(self, clip: Clip, version: Version, *, whole: bool = False) -> bytes:
        """Encode a version as FLAC."""
        return self._cache.get((clip.id, version, whole, "flac"), lambda: flac(self._need(clip, version, whole)))

    def spectrogram(self, clip: Clip, version: Version, *, whole: bool = False) -> bytes:
        """Draw a version; both have the scale of the original, if it is there, so that they can be compared."""

        def draw() -> bytes:
            sound = self._need(clip, version, whole)
            first = self._hear(clip, "original", whole) or sound
            levels = spectrogram_db(sound.audio, sound.sample_rate)
            loudest = levels if first is sound else spectrogram_db(first.audio, first.sample_rate)
            return spectrogram_png(levels, float(loudest.max()))

        return self._cache.get((clip.id, version, whole, "png"), draw)

    def array_picture(self, clip: Clip) -> bytes:
        """Draw the codes or latents."""
        size = self._info.array.codebook_size
        make = (lambda: latents_png(clip.array)) if size is None else (lambda: codes_png(clip.array, size))
        return self._cache.get((clip.id, "array"), make)

    def has_original(self, clip: Clip) -> bool:
        """Say whether the recording of a clip is there."""
        return self._hear(clip, "original", False) is not None

    def _need(self, clip: Clip, version: Version, whole: bool) -> Sound:
        found = self._hear(clip, version, whole)
        if found is None or not found.audio.size:
            raise StoreError(f"clip {clip.id!r}: there is no {version} audio of it")
        return found

    def _hear(self, clip: Clip, version: Version, whole: bool) -> Sound | None:
        """Read or decode; the last few stay, because a player and a picture ask for the same one."""
        key, heard = (clip.id, whole), self._heard[version]
        with self._locks[version]:
            if key not in heard:
                found = self._read(clip, whole) if version == "original" else self._decode(clip, whole)
                while len(heard) >= KEPT_SOUNDS:
                    del heard[next(iter(heard))]
                heard[key] = found
            return heard[key]

    def _read(self, clip: Clip, whole: bool) -> Sound | None:
        array = self._info.array
        audio = next((found for read in self._readers if (found := read(clip)) is not None), None)
        if audio is None:
            return None
        limit = audio.shape[1] if whole else round(BEGINNING_SECONDS * array.sample_rate)
        return Sound(audio[:, :limit], array.sample_rate)

    def _decode(self, clip: Clip, whole: bool) -> Sound:
        array = self._info.array
        part = Beginning(clip.array, clip.num_samples, clip.scales)
        if not whole:
            part = beginning(clip, array, BEGINNING_SECONDS)
        return Sound(self._codec.decode(part).float().cpu().numpy(), array.sample_rate)

    # Imported when somebody listens: torch takes longer than the rest of the studio together.

    @cached_property
    def _codec(self) -> "Codec":
        from solfa.codecs.catalogue import load_codec

        return load_codec(self._info.codec)

    @cached_property
    def _readers(self) -> list[Callable[[Clip], NDArray[Any] | None]]:
        from solfa.encoding.decoded_clips import originals

        return [originals(source, self._info.array) for source in self._sources]
