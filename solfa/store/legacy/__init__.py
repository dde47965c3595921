"""Read the layouts in which others, or an export, keep encoded clips, as streams of clips for a dataset."""

from solfa.store.legacy.detection import open_legacy
from solfa.store.legacy.found_clips import ArrayLayout, LegacyClips

__all__ = ["ArrayLayout", "LegacyClips", "open_legacy"]
