"""A WAV file that can be played while it grows: at any time, its header says how much is there."""

from pathlib import Path
from typing import final

from solfa.audio.channels import Audio
from solfa.audio.wav_header import HEADER_BYTES, SAMPLE_BYTES, wav_header, wav_samples


@final
class GrowingWav:
    """A float WAV that grows block by block; if the process is killed, all blocks but the last are intact."""

    def __init__(self, path: Path, sample_rate: int, num_channels: int) -> None:
        """Start an empty file, replacing an existing one; a link is replaced, not followed."""
        self._sample_rate, self._num_channels, self._num_samples = sample_rate, num_channels, 0
        path.unlink(missing_ok=True)
        self._file = path.open("xb")
        self._write_header()

    def append(self, audio: Audio) -> None:
        """Add `[C, n]` samples."""
        assert len(audio) == self._num_channels, f"expected {self._num_channels} channels, found {len(audio)}"
        self._file.seek(HEADER_BYTES + self._num_samples * self._num_channels * SAMPLE_BYTES)
        self._file.write(wav_samples(audio))
        # Samples first: the header may count too few of them, but never too many.
        self._file.flush()
        self._num_samples += audio.shape[1]
        self._write_header()

    def close(self) -> None:
        """Stop growing."""
        self._file.close()

    def _write_header(self) -> None:
        self._file.seek(0)
        self._file.write(wav_header(self._sample_rate, self._num_channels, self._num_samples))
        self._file.flush()
