"""The corpus of the built-in codec: what is examined was never trained on, and a second run makes the same."""

import importlib.util
import io
import sys
import tarfile
from pathlib import Path, PurePosixPath
from types import ModuleType

import numpy as np
import pytest
import soundfile

from solfa.audio.sources.choice import open_source
from solfa.errors import AudioError, ConfigError

RECIPE = Path(__file__).parents[2] / "recipes" / "built_in_codec"


def load(name: str) -> ModuleType:
    """Import a file of the recipe under its own name, as its neighbours do when it runs as a script."""
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, RECIPE / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


splits, synthesis, collect = load("splits"), load("synthesis"), load("collect")


def wav(seconds: float = 1.0) -> bytes:
    content = io.BytesIO()
    soundfile.write(content, np.full(round(1000 * seconds), 0.1), 1000, format="WAV")
    return content.getvalue()


FEW = (*splits.MUSIC[:2], splits.MUSIC[6], splits.SPEECH[0], splits.SPEECH[1], splits.EFFECTS[0], *splits.UNSEEN[-2:])
"""At least one source of every kind and of every rule for songs, and a package with two kinds."""


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Collect from a few of the sources, to write hundreds of made-up files rather than thousands."""
    monkeypatch.setattr(collect, "SOURCES", FEW)


def names_in(source) -> list[str]:  # type: ignore[no-untyped-def]
    """Make up more songs than are kept from training: with stems, families, silence and things that are no sound."""
    songs = [f"{word}_x{letter}" for word in "abcde" for letter in "abcdefgh"]
    if source.song == splits.FOLDER:
        names = [f"pack/{song}/{stem}.ogg" for song in songs for stem in ("guitar", "song")]
    elif source.song == splits.FAMILY:
        names = [f"{song}{end}.flac" for song in songs for end in ("", "2", "_full")]
    else:
        names = [f"{song}.wav" for song in songs]
    silent = [f"{folder}/1.wav" for folder in source.without]
    return [f"{source.folder}/{name}" for name in (*names, *silent, "readme.md")] + ["usr/other/tone.wav"]


def fill(out: Path) -> None:
    """Lay out made-up packages and clips as a finished collection has them, all but the tables."""
    for source in FEW:
        for name in names_in(source):
            path = out / "packages" / source.package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(wav())
    (out / "synthesised").mkdir()
    for number in range(15):
        (out / "synthesised" / f"{number:03d}.wav").write_bytes(wav())


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """Put programs of Debian, as shell scripts that stand for them, in front of the real ones."""
    folder.mkdir(exist_ok=True)
    for name, script in programs.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def packed(path: Path, name: str) -> Path:
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(wav())
        tar.addfile(member, io.BytesIO(wav()))
    return path


@pytest.mark.usefixtures("few")
def test_no_song_is_in_two_splits_and_each_kind_is_in_the_tables_it_belongs_to(tmp_path: Path) -> None:
    fill(tmp_path)
    entries = collect.collect(tmp_path, None)
    assert len({entry.path for entry in entries}) == len(entries)
    for source in FEW:
        songs: dict[str, set[str]] = {}
        for entry in entries:
            if (entry.package, entry.kind) == (source.package, source.kind):
                name = PurePosixPath(entry.path).relative_to(f"packages/{source.package}")
                songs.setdefault(splits.song_of(name, source), set()).add(entry.split)
        counts = [
            sum(found == {split} for found in songs.values()) for split in ("held-out", "valid", "train", "unseen")
        ]
        kept = source.held_out + source.valid
        assert counts == ([0, 0, 0, 40] if source.unseen else [source.held_out, source.valid, 40 - kept, 0])
    tables = {
        path.name: {entry.kind for entry in entries if entry.table == path.name} for path in tmp_path.glob("*.csv")
    }
    assert tables == {
        "train-music.csv": {"music"},
        "train-speech.csv": {"speech"},
        "train-effects.csv": {"effects"},
        "train-synthesised.csv": {"synthesised"},
        "valid.csv": {"music", "speech", "effects", "synthesised"},
        "held-out.csv": {"music", "speech", "effects"},
        "unseen.csv": {"music", "effects"},
    }


def test_no_recording_has_two_sources_and_what_is_for_testing_is_never_trained_on() -> None:
    for source in splits.SOURCES:
        path = PurePosixPath(source.folder, "a/b.ogg")
        taking = [other for other in splits.SOURCES if other.package == source.package and splits.is_taken(path, other)]
        assert taking == [source]
    unseen = {source.package for source in splits.UNSEEN}
    assert unseen == {
        "drascula-music",
        "pushover-data",
        "planetblupi-music-ogg",
        "hyperrogue-music",
        "supertux-data",
    }
    assert all(source.unseen == (source.package in unseen) for source in splits.SOURCES)


@pytest.mark.usefixtures("few")
def test_the_tables_are_read_by_solfa_wherever_the_corpus_lies_and_a_second_run_writes_the_same(tmp_path: Path) -> None:
    fill(tmp_path / "first")
    entries = collect.collect(tmp_path / "first", None)
    before = {path.name: path.read_bytes() for path in (tmp_path / "first").glob("*.csv")}
    assert collect.collect(tmp_path / "first", None) == entries
    moved = (tmp_path / "first").rename(tmp_path / "moved")
    assert {path.name: path.read_bytes() for path in moved.glob("*.csv")} == before
    read = {path.name: list(open_source(path).recordings()) for path in moved.glob("*.csv")}
    assert sum(map(len, read.values())) == len(entries)
    assert all(recording.error is None for recordings in read.values() for recording in recordings)
    assert {recording.metadata["licence"] for recording in read["train-speech.csv"]} == {"BSD-like", "CC-BY-SA-3.0"}
    assert {recording.metadata["split"] for recording in read["held-out.csv"]} == {"held-out"}


def test_the_tracks_that_the_published_codec_never_heard_stay_the_same() -> None:
    source = splits.SOURCES[0]
    tracks = """A New Journey, Aberrations, Advanced Simulacra, Awakening, By-Product, Coherence, Deprecation,
        Enemy Unknown, Inevitable, Media Threat, Nebula, Orbital Elevator, Through Space, lose/Chimes They Fade,
        lose/March Thee to Dis, win/Apex Aleph"""
    recordings = [splits.Recording(f"{name.strip()}.ogg", name.strip(), 60.0) for name in tracks.split(",")]
    found = splits.song_splits(recordings, source)
    assert {song for song, split in found.items() if split == "held-out"} == {"Advanced Simulacra", "Media Threat"}
    assert {song for song, split in found.items() if split == "valid"} == {"By-Product"}
    assert splits.song_splits(recordings[::-1], source) == found


def test_a_song_with_a_recording_too_short_to_measure_is_trained_on() -> None:
    source = splits.Source("some-package", "effects", "MIT", "usr", held_out=3)
    lengths = {"a": (2.0,), "b": (2.0, 0.5), "c": (1.0,)}
    recordings = [splits.Recording(song, song, seconds) for song, all_of in lengths.items() for seconds in all_of]
    assert splits.song_splits(recordings, source) == {"a": "held-out", "b": "train", "c": "held-out"}


@pytest.mark.parametrize(
    ("package", "name", "song"),
    [
        ("sonic-pi-samples", "loop_amen_full.flac", "loop_amen"),
        ("sonic-pi-samples", "tabla_tun2.flac", "tabla_tun"),
        ("sonic-pi-samples", "loop_3d_printer.flac", "loop_3d"),
        ("fretsonfire-songs-sectoid", "sectoid/War of freedom/guitar.ogg", "sectoid/War of freedom"),
        ("festvox-ru", "russian/wav/ru_0001.wav", "russian/wav/ru_0001"),
        ("wesnoth-1.16-data", "sounds/axe-2.ogg", "sounds/axe"),
        ("wesnoth-1.16-data", "sounds/horn.ogg", "sounds/horn"),
    ],
)
def test_a_song_is_what_its_recordings_share(package: str, name: str, song: str) -> None:
    (source,) = [source for source in splits.SOURCES if source.package == package]
    assert splits.song_of(PurePosixPath(source.folder, name), source) == song


def test_clips_of_every_family_are_within_bounds_and_at_varied_levels() -> None:
    clips = [synthesis.synthesised_clip(0, number) for number in range(14)]
    assert {clip.shape for clip in clips} == {(1, 240_000)}
    peaks = [float(np.abs(clip).max()) for clip in clips]
    assert all(10 ** (synthesis.QUIETEST_DB / 20) * 0.99 <= peak <= 1.0 for peak in peaks)
    assert max(peaks) / min(peaks) > 8


def test_a_clip_depends_on_the_seed_and_its_number_alone() -> None:
    first = {number: synthesis.synthesised_clip(3, number) for number in (4, 5)}
    again = {number: synthesis.synthesised_clip(3, number) for number in (5, 4)}
    assert all(np.array_equal(first[number], again[number]) for number in first)
    assert not np.array_equal(first[4], synthesis.synthesised_clip(4, 4))
    assert not np.array_equal(first[4], synthesis.synthesised_clip(3, 18))  # the same family, another turn


def test_clips_are_written_once_with_one_date(tmp_path: Path) -> None:
    folder = collect.synthesised(tmp_path / "synthesised", 2)
    written = {path.name: path.stat().st_ctime_ns for path in folder.iterdir()}
    assert sorted(written) == ["000.wav", "001.wav"]
    assert {path.stat().st_mtime for path in folder.iterdir()} == {float(collect.WRITTEN_AT)}
    collect.synthesised(folder, 2)
    assert {path.name: path.stat().st_ctime_ns for path in folder.iterdir()} == written


def test_a_package_is_downloaded_and_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed(tmp_path / "song.tar", "usr/share/song.wav")
    apt_get = f'[ "$1" = download ] && cp "{tmp_path}/song.tar" "$2_1.0_all.deb"'
    install(tmp_path / "bin", monkeypatch, apt_get=apt_get, dpkg='mkdir -p "$3" && tar -xf "$2" -C "$3"')
    folder = collect.unpacked("songs", tmp_path / "out", None)
    assert [path.name for path in folder.rglob("*.wav")] == ["song.wav"]
    install(tmp_path / "bin", monkeypatch, apt_get="exit 1", dpkg="exit 1")
    assert collect.unpacked("songs", tmp_path / "out", None) == folder


def test_what_fails_leaves_nothing_behind_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "bin", monkeypatch, apt_get="touch half; echo E: No such package >&2; exit 100")
    with pytest.raises(ConfigError, match=r"songs: .*apt-get update.*No such package"):
        collect.unpacked("songs", tmp_path / "out", None)
    install(tmp_path / "bin", monkeypatch, dpkg='mkdir -p "$3/usr"; echo truncated >&2; exit 2')
    packed(tmp_path / "songs_1_all.deb", "usr/song.wav")
    with pytest.raises(ConfigError, match=r"songs_1_all.deb: .*delete.*truncated"):
        collect.unpacked("songs", tmp_path / "out", tmp_path)
    assert not [path for path in (tmp_path / "out").rglob("*") if not path.is_dir() or path.name in ("songs", "usr")]
    with pytest.raises(ConfigError, match=r"music_\*.deb.*apt-get download music"):
        collect.unpacked("music", tmp_path / "out", tmp_path)


def test_a_machine_without_apt_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"apt-get: .*Debian"):
        collect.unpacked("songs", tmp_path / "out", None)


def test_a_broken_recording_is_named(tmp_path: Path) -> None:
    (tmp_path / "song.ogg").write_bytes(b"OggS")
    with pytest.raises(AudioError, match=r"song\.ogg: cannot be read"):
        collect.seconds_of(tmp_path / "song.ogg")


def test_the_summary_adds_up_recordings_and_hours() -> None:
    entries = [splits.Entry(name, "music", "pack", "MIT", "train", 1800.0) for name in ("a", "b", "c")]
    assert collect.summary(entries).splitlines()[1].split() == ["music", "train", "3", "1.50", "MIT"]
