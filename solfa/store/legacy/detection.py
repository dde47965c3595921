"""Recognise which layout a folder is in."""

from pathlib import Path

from solfa.errors import ConfigError, StoreError
from solfa.store.export.marker import is_export
from solfa.store.layout import is_dataset
from solfa.store.legacy.exported_folder import ExportedClips
from solfa.store.legacy.found_clips import ArrayLayout, LegacyClips
from solfa.store.legacy.musiccaps import MusicCapsClips, metadata_path
from solfa.store.legacy.npy_folder import NpyClips
from solfa.store.legacy.stable_audio import StableAudioClips


def open_legacy(root: Path, layout: ArrayLayout | None = None) -> LegacyClips | ExportedClips:
    """Open a folder of encoded clips; `layout` says which axis is time if the shapes do not."""
    if not root.is_dir():
        raise ConfigError(
            f"{root}: expected a folder of encoded clips, found {'a file' if root.exists() else 'nothing'}"
        )
    if is_export(root):
        if layout is not None:
            raise ConfigError(f"{root}: this is a Solfa export, which knows its layout; leave `layout` out")
        return ExportedClips(root)
    if is_dataset(root):
        raise ConfigError(f"{root}: this already is a Solfa dataset; there is nothing to import")
    if (root / "details.json").is_file():
        return StableAudioClips(root, layout)
    metadata = metadata_path(root)
    if metadata is not None:
        return MusicCapsClips(root, metadata, layout)
    if next(root.rglob("*.npy"), None) is not None:
        return NpyClips(root, layout)
    raise StoreError(
        f"{root}: expected details.json (stable-audio-tools), pre_encoded_metadata.json (MusicCaps), .npy files, or a "
        "folder written by `solfa export`, found none of these"
    )
