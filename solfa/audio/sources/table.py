"""A table of recordings: CSV, TSV, JSONL, and the manifests of AudioCraft.

A row names its audio by a path, relative to the audio root or to the table's folder, or by a YouTube id. A table may
come from anywhere, so a path counts only if it resolves, links included, to something inside these two folders.
"""

import os
import re
import stat
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from solfa.audio.file_types import AUDIO_EXTENSIONS, extension
from solfa.audio.recording import Recording
from solfa.audio.sources.folder import file_recording
from solfa.audio.sources.folder_walk import walk
from solfa.audio.sources.followed_links import FoldersBelow, FollowedLinks, Resolved, resolve_inside
from solfa.audio.sources.keys import UniqueKeys
from solfa.audio.sources.location import uri_below
from solfa.audio.sources.metadata import SIDECAR_ERROR, find_caption
from solfa.errors import ConfigError
from solfa.files.json_objects import parse_strict
from solfa.files.printable_names import escape_path, unescape_path
from solfa.files.sorted_hashes import ROWS_PER_BLOCK, HashSorter
from solfa.files.table_rows import Row, read_column, read_header, read_rows

PATH_FIELDS = ("path", "file", "filename", "audio_path", "audio")
_AUDIOCRAFT_FIELDS = {"path", "duration", "sample_rate"}
_YTID_IN_NAME = re.compile(r"\[([A-Za-z0-9_-]{11})\]")


@dataclass(frozen=True)
class TableSource:
    """One recording per row of a table, in the table's order."""

    path: Path
    audio_root: Path | None = None

    @property
    def root(self) -> Path:
        return self.audio_root if self.audio_root is not None else self.path.parent

    def recordings(self) -> Iterator[Recording]:
        self._expect_header()
        if self._has_unique_ids():
            for row in read_rows(self.path):
                yield self._recording(row, _as_id(row.values.get("id")))
            return
        if self._has_unique_paths():
            for row in read_rows(self.path):
                yield self._recording(row)
            return
        keys = UniqueKeys()
        for row in read_rows(self.path):
            recording = self._recording(row)
            key = keys.claim(recording.key)
            yield recording if key == recording.key else replace(recording, key=key)

    @cached_property
    def _bases(self) -> tuple[Path, ...]:
        folder = self.path.parent
        return (folder,) if self.audio_root is None else (self.audio_root, folder)

    def _expect_header(self) -> None:
        """Refuse a CSV that begins with its first recording: its values would be taken for the names of columns."""
        names = read_header(self.path) or []
        file = next((name for name in names if extension(name) in AUDIO_EXTENSIONS), None)
        if file is not None and not {*PATH_FIELDS, "ytid"} & {*names}:
            example = ",".join(["path", "caption"][: len(names)])
            raise ConfigError(
                f"{escape_path(self.path)}, line 1: expected the names of the columns, found the file "
                f"{escape_path(file)}; put a line above it that names them, such as {example}"
            )

    def _has_unique_ids(self) -> bool:
        # Where no two hashes are equal, no two ids are; where two are, the ids are compared.
        suspects = _repeated_hashes(map(_as_id, read_column(self.path, "id")))
        if not suspects:
            return suspects is not None
        found = [key for value in read_column(self.path, "id") if hash(key := _as_id(value)) in suspects]
        return len(set(found)) == len(found)

    def _has_unique_paths(self) -> bool:
        """Say whether each row names another file; False also where that takes more than to compare plain names."""
        fields = {*PATH_FIELDS, "ytid"}.intersection(read_header(self.path) or [])
        if len(fields) != 1 or "ytid" in fields:
            return False
        names = read_column(self.path, fields.pop())
        try:
            return _repeated_hashes(name if _is_plain(name) else None for name in names) == set()
        except ConfigError:  # which is told when that row is listed
            return False

    def _recording(self, row: Row, own_id: str | None = None) -> Recording:
        """Describe the recording of a row, by its own id or by what the audio is called."""
        for field in PATH_FIELDS:
            if name := row.values.get(field):
                break
        else:
            name = None
        plain = self._plain_recording(name, row.values, own_id) if isinstance(name, str) else None
        if plain is not None:
            return plain
        recording = self._any_recording(row, name)
        return recording if own_id is None else replace(recording, key=escape_path(own_id))

    def _plain_recording(self, name: str, values: Mapping[str, Any], own_id: str | None) -> Recording | None:
        """Describe what most rows name, a file where it is said to be, in a fifth of the time; None for others."""
        if not _is_plain(name):
            return None
        folder, _, file = name.rpartition("/")
        place = self._folders[folder]
        if place is None or "ytid" in values or values.keys() >= _AUDIOCRAFT_FIELDS:
            return None
        path = f"{place.real}/{file}"
        try:
            status = os.lstat(path)
        except (OSError, ValueError):
            return None
        if not stat.S_ISREG(status.st_mode) or not os.access(path, os.R_OK):
            return None
        return Recording(
            key=escape_path(name if own_id is None else own_id),
            uri=escape_path(f"{place.below}{file}"),
            size_bytes=status.st_size,
            mtime_ns=status.st_mtime_ns,
            caption=find_caption(values),
            metadata=values,
        )

    def _any_recording(self, row: Row, name: object) -> Recording:
        values, ytid = row.values, row.values.get("ytid")
        if isinstance(name, str):
            resolved, key = resolve_inside(name, self._bases, self._links), self._key_of(name)
        elif isinstance(ytid, str) and ytid:
            resolved, key = self._by_ytid(ytid), escape_path(ytid)
        else:
            raise ConfigError(
                f"{escape_path(self.path)}, line {row.line}: expected one of the columns "
                f"{', '.join(PATH_FIELDS)} or ytid to name the audio, found {', '.join(values) or 'nothing'}"
            )
        if isinstance(ytid, str) and ytid:
            key = escape_path(ytid)
        if resolved.error is not None:
            return Recording(
                key=key,
                uri=escape_path(resolved.path),
                caption=find_caption(values),
                metadata=values,
                error=resolved.error,
            )
        uri = uri_below(self._links.roots(self._bases[:1])[0], resolved.path)
        has_sidecars = values.keys() >= _AUDIOCRAFT_FIELDS
        recording = file_recording(resolved.path, key=key, uri=uri, has_sidecars=has_sidecars)
        metadata = {**self._sidecar(recording, values), **values}
        return replace(recording, caption=find_caption(metadata), metadata=metadata)

    def _key_of(self, name: str) -> str:
        path = Path(name)
        for base in self._bases if path.is_absolute() else ():
            for root in (base.absolute(), base.resolve()):
                if path.is_absolute() and path.is_relative_to(root):
                    path = path.relative_to(root)
        return escape_path(path)

    def _sidecar(self, recording: Recording, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read the JSON that AudioCraft keeps next to the audio, or the one that `info_path` names."""
        if not values.keys() >= _AUDIOCRAFT_FIELDS:
            return {}
        info_path = values.get("info_path")
        if not isinstance(info_path, str) or not info_path:
            return {name: value for name, value in recording.metadata.items() if name != "caption"} | (
                {"caption": recording.caption} if recording.caption else {}
            )
        resolved = resolve_inside(info_path, self._bases)
        if resolved.error is not None:
            return {SIDECAR_ERROR: resolved.error}
        try:
            return parse_strict(resolved.path.read_bytes())
        except (OSError, ValueError) as error:
            return {SIDECAR_ERROR: f"{escape_path(info_path)}: not a JSON object ({error})"}

    def _by_ytid(self, ytid: str) -> Resolved:
        for base in self._bases:
            found = self._ytids[base].get(ytid)
            if found is not None:
                return resolve_inside(str(unescape_path(found)), (base,))
        folders = " or ".join(escape_path(base) for base in self._bases)
        return Resolved(
            self.root / ytid, f"no audio file named {escape_path(ytid)}.* or *[{escape_path(ytid)}]* below {folders}"
        )

    @cached_property
    def _folders(self) -> FoldersBelow:
        return FoldersBelow(self._bases[0])

    @cached_property
    def _links(self) -> FollowedLinks:
        return FollowedLinks()

    @cached_property
    def _ytids(self) -> dict[Path, dict[str, str]]:
        return {base: _index_ytids(base) for base in self._bases}


def _repeated_hashes(keys: Iterable[str | None]) -> set[int] | None:
    """Find the hashes that two keys have, in memory that does not grow with the table; None if a key is missing."""
    hashes = array("q")
    with HashSorter(width=1) as sorter:
        for key in keys:
            if key is None:
                return None
            hashes.append(hash(key))
            if len(hashes) == ROWS_PER_BLOCK:
                sorter.add(hashes)
                hashes = array("q")
        sorter.add(hashes)
        return sorter.repeated()


def _is_plain(name: str) -> bool:
    """Say whether no other name that is plain means the same file, links aside."""
    return os.sep == "/" and ".." not in name and os.path.normpath(name) == name and name[0] != "/"


def _as_id(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) or None


def _index_ytids(base: Path) -> dict[str, str]:
    """Map file stems, and ids in brackets as in yt-dlp's names, to paths; a plain stem wins."""
    stems: dict[str, str] = {}
    bracketed: dict[str, str] = {}
    for found in walk(base):
        name = unescape_path(found.name).name
        stem, _, extension = name.rpartition(".")
        if f".{extension.lower()}" not in AUDIO_EXTENSIONS or found.error is not None:
            continue
        stems.setdefault(stem, found.name)
        for ytid in _YTID_IN_NAME.findall(stem):
            bracketed.setdefault(ytid, found.name)
    return bracketed | stems
