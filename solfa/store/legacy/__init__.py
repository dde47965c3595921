"""Read the layouts in which others, or an export, keep encoded clips, as streams of clips for a dataset."""

from solfa.store.legacy.found import ArrayLayout, LegacyClips
from solfa.store.legacy.opening import open_legacy

__all__ = ["ArrayLayout", "LegacyClips", "open_legacy"]
