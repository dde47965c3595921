"""The clips of an import: found in a folder, matched to the recordings they were made from, counted along the way."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from solfa.audio.probe import probe_recording
from solfa.audio.recording import AudioInfo, AudioSource, Recording
from solfa.encoding.coverage import Span, held_share, told_span
from solfa.encoding.recording_index import RecordingIndex, attach
from solfa.store.legacy.exported_folder import ExportedClips
from solfa.store.legacy.found_clips import LegacyClips
from solfa.store.schema import ArraySpec
from solfa.store.shard_reader import FailedClip
from solfa.store.shard_writer import Outcome


class SourceAudio:
    """The recordings that the arrays were made from, each opened once."""

    def __init__(self, source: AudioSource) -> None:
        self._root, self._index = source.root, RecordingIndex(source.recordings())
        self._probed: dict[str, AudioInfo | str] = {}

    def find(self, key: str) -> Recording | None:
        """Find the one recording with that name."""
        return self._index.find(key)

    def probe(self, recording: Recording) -> AudioInfo | str:
        """Say what a recording is, or why it cannot be read."""
        if recording.key not in self._probed:
            self._probed[recording.key] = probe_recording(self._root, recording)
        return self._probed[recording.key]


class _Held(NamedTuple):
    """What clips hold of one recording."""

    seconds: float
    """How long the recording is."""
    spans: set[Span]


@dataclass
class ImportedClips:
    """The clips to import, which can be iterated repeatedly, and what was noticed along the way."""

    found: LegacyClips | ExportedClips
    spec: ArraySpec
    audio: SourceAudio | None
    leave_out_failed: bool
    leave_out_unmatched: bool = False
    failures: dict[str, FailedClip] = field(default_factory=dict)
    unmatched: set[str] = field(default_factory=set)
    unplaced: set[str] = field(default_factory=set)
    """Clips whose length is not that of their place in the recording."""
    repeated: set[str] = field(default_factory=set)
    _held: dict[str, _Held] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Outcome]:
        seen: set[str] = set()
        for outcome in self.found.outcomes(self.spec):
            attached = self._attached(outcome)
            clip = attached.clip
            if clip.id in seen:
                self.repeated.add(clip.id)
                continue
            seen.add(clip.id)
            if self.leave_out_unmatched and clip.id in self.unmatched:
                continue
            if attached.array is None:
                self.failures[clip.id] = FailedClip(clip.id, attached.error or "unknown", clip.uri, clip.key)
                if self.leave_out_failed:
                    continue
            else:
                self._count(attached)
            yield attached

    def _attached(self, outcome: Outcome) -> Outcome:
        if self.audio is None:
            return outcome
        recording = self.audio.find(outcome.clip.key)
        if recording is None:
            self.unmatched.add(outcome.clip.id)
            return outcome
        info = self.audio.probe(recording)
        attached = attach(outcome, recording, info, self.spec)
        if attached.array is not None and not attached.clip.source_num_samples and not isinstance(info, str):
            self.unplaced.add(attached.clip.id)
        return attached

    def _count(self, outcome: Outcome) -> None:
        """Note which part of its recording a clip is, if that is known."""
        if isinstance(self.found, ExportedClips):  # the same dataset again, with whatever it holds
            return
        clip, seconds = outcome.clip, outcome.num_samples / self.spec.sample_rate
        told = told_span(clip.metadata)
        if clip.source_num_samples and clip.source_sample_rate:
            span = (clip.start / clip.source_num_samples, clip.stop / clip.source_num_samples)
            whole = clip.source_num_samples / clip.source_sample_rate
        elif told is not None and self.audio is None:
            span, whole = told, seconds / (told[1] - told[0])
        else:
            return
        self._held.setdefault(clip.key, _Held(whole, set())).spans.add(span)

    @property
    def share(self) -> float:
        """How much of the audio of their recordings the clips hold, as far as that is known."""
        whole = sum(held.seconds for held in self._held.values())
        return sum(held.seconds * held_share(held.spans) for held in self._held.values()) / whole if whole else 1.0

    def notes(self) -> Iterator[str]:
        """Say what a user may not expect."""
        if self.share < 0.995:
            yield (
                f"the clips are crops: they hold {self.share:.0%} of the audio of {len(self._held)} recordings; "
                "`solfa encode` with their audio and codec adds the rest"
            )
        if self.unplaced:
            yield (
                f"clips whose length is not that of their place in the recording: {len(self.unplaced)} (first: "
                f"{min(self.unplaced)}); `solfa encode` adds nothing to their recordings"
            )
        if self.unmatched:
            left = ", left out" if self.leave_out_unmatched else ""
            first = min(self.unmatched)
            yield f"clips that match no recording of the source{left}: {len(self.unmatched)} (first: {first})"
        if self.repeated:
            yield f"clips that occur twice, imported once: {len(self.repeated)} (first: {min(self.repeated)})"
        if self.leave_out_failed and self.failures:
            yield f"unreadable clips left out: {len(self.failures)}; `solfa encode` can redo them"
