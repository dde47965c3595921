"""What the user's `get_custom_metadata(info, audio)` says of an item: it gets what the model gets, the padded crop."""

from dataclasses import replace
from typing import NamedTuple

from solfa.audio.recording import AudioInfo, Recording
from solfa.audio.sources.custom_metadata import Excerpt
from solfa.audio.sources.location import locate_recording
from solfa.encoding.pre_encode.config_source import Collected
from solfa.store.planned_clip import PlannedClip

REJECTED = "rejected by get_custom_metadata"


class ItemMetadata(NamedTuple):
    """The functions of a dataset config, and the shape in which they get items."""

    collected: Collected
    sample_size: int
    sample_rate: int
    """The codec's, like the number of channels."""
    num_channels: int

    def describe(self, recording: Recording, info: AudioInfo | str, item: PlannedClip) -> PlannedClip:
        """Add what the function of its collection says; an item that it rejects stays in the list, as failed."""
        function = self.collected.collection_of(recording.key).custom_metadata
        if function is None or isinstance(info, str):
            return item
        excerpt = Excerpt(
            locate_recording(self.collected.source.root, recording),
            info,
            item.start,
            item.stop,
            self.sample_rate,
            self.num_channels,
            self.sample_size,
        )
        described = function.describe(recording, self.collected.relpath(recording.key), excerpt)
        if described is None:
            return replace(item, error=REJECTED)
        return replace(item, metadata=described.metadata, caption=described.caption, error=described.error)
