"""Captioned clips: captions say what the packages say, recordings are on one side, and a second run makes the same."""

import csv
import gzip
import importlib.util
import json
import shutil
import struct
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile

from solfa.audio.sources.choice import open_source
from solfa.errors import AudioError, ConfigError

RECIPE = Path(__file__).parents[2] / "recipes" / "mot_captions"
RATE = 1000
LABELS = "0.2 125 pau\n{}1.4 125 pau\n{}3.0 125 pau\n"


def load(name: str, module_name: str | None = None) -> ModuleType:
    """Import a file of the recipe under its own name, as its neighbours do when it runs as a script."""
    module_name = module_name or name
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, RECIPE / f"{name}.py")
        assert spec is not None and spec.loader is not None
        sys.modules[module_name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module_name])
    return sys.modules[module_name]


captions, tags, prompts, pieces = load("captions"), load("tags"), load("prompts"), load("pieces")
collect = load("collect", "mot_captions_collect")  # Another recipe has a `collect`, too.


def write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def sound(path: Path, seconds: float, level: float = 0.1, **tagged: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ogg = path.suffix in (".ogg", ".opus")
    rate = 8000 if ogg else RATE
    noise = level * np.random.default_rng(0).standard_normal((round(rate * seconds), 2))
    with soundfile.SoundFile(path, "w", rate, 2, format="OGG" if ogg else None) as file:
        for name, value in tagged.items():
            if value:
                setattr(file, name, value)
        file.write(noise)


def phones(start: float, stop: float, count: int) -> str:
    ends = np.linspace(start, stop, count + 1)[1:]
    return "".join(f"{end:.4f} 125 a\n" for end in ends)


def make_packages(root: Path) -> Path:
    """Lay out every package with a few recordings."""
    share = {name: root / name / "usr/share" for name in pieces.READERS}
    texts = """; Texts
auth-thankyou: Thank you.
thanks: ...thank you
letters/at: at [@]
beep: [this is a simple beep tone]
silence/1: (1 second of silence)
long: Too long.
"""
    texts_doc = root / "asterisk-core-sounds-en/usr/share/doc/asterisk-core-sounds-en"
    write(texts_doc / "core-sounds-en.txt.gz", gzip.compress(texts.encode()))
    prompt_folder = share["asterisk-core-sounds-en-wav"] / "asterisk/sounds/en_US_f_Allison"
    for name in ("auth-thankyou", "thanks", "letters/at", "beep", "silence/1", "without-text"):
        sound(prompt_folder / f"{name}.wav", 1.0)
    sound(prompt_folder / "long.wav", 6.0)

    voice = share["festvox-ru"] / "festival/voices/russian/msu_ru_nsh_clunits"
    write(voice / "etc/txt.done.data", '( ru_1 "Озеро начало, ходить зыб+ью." )\n( ru_2 "Озеро, начало ходить." )\n')
    for name, first, second in (("ru_1", 11, 9), ("ru_2", 14, 4)):
        write(voice / f"lab/{name}.lab", "#\n" + LABELS.format(phones(0.2, 1.2, first), phones(1.4, 2.5, second)))
        sound(voice / f"wav/{name}.wav", 3.0)

    samples = share["sonic-pi-samples"] / "sonic-pi/samples"
    for name, seconds in (("drum_tom_hi_soft", 1.0), ("loop_amen", 2.0), ("loop_amen_full", 12.0), ("bd_808", 0.1)):
        sound(samples / f"{name}.flac", seconds)
    sound(samples / "rand-stream.flac", 1.0)

    songs = share["fretsonfire-songs-muldjord"] / "games/fretsonfire/data/songs"
    more_songs = share["fretsonfire-songs-sectoid"] / "games/fretsonfire/data/songs"
    for folder, artist, genre in ((songs, "Muldjord", "Death Metal"), (more_songs, "Sectoid", "")):
        write(folder / artist / "library.ini", f"[library]\nname=Songs by {artist}\n")
        for title in ("Chaos God", "Feelings", "War"):
            write(folder / artist / title / "song.ini", f"[song]\nname = {title}\ncolour = #10%\n")
            sound(folder / artist / title / "song.ogg", 10.0, genre=genre)
            sound(folder / artist / title / "guitar.ogg", 10.0, level=0.0 if title == "War" else 0.1, genre=genre)

    music = {name: share[name] / "games" for name in share}
    for number in range(3):
        tagged = {"title": f"Piece {number}", "artist": "Somebody"}
        sound(music["singularity-music"] / f"singularity/music/win/Piece {number}.ogg", 6.0, **tagged)
        sound(music["fillets-ng-data"] / f"fillets-ng/music/rybky{number:02d}.ogg", 6.0)
    core = music["wesnoth-1.16-music"] / "wesnoth/1.16/data/core/music"
    sound(core / "frantic.ogg", 11.0, title="Frantic", artist="New", genre="Romantic Classical")
    sound(core / "frantic-old.ogg", 6.0, title="Frantic", artist="Old", genre="Game")
    sound(core / "silence.ogg", 10.0)
    album = music["warzone2100-music"] / "warzone2100/music/albums/original"
    tracks = [{"filename": f"track{name}.opus", "title": f"Track {name}", "author": "Martin"} for name in (1, 2)]
    write(album / "album.json", json.dumps({"tracks": tracks}))
    for track in tracks:
        sound(album / track["filename"], 6.0)
    return root


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_packages(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def out(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("out")
    collect.collect(packages, folder)
    return folder


def captions_in(out: Path, source: str) -> dict[str, str]:
    prefix = f"clips/{source}/"
    return {row["path"].removeprefix(prefix): row["caption"] for row in rows_in(out / "clips.csv")
            if row["path"].startswith(prefix)}  # fmt: skip


def test_every_caption_is_one_of_the_wordings_of_what_the_package_says(out: Path) -> None:
    english = captions_in(out, "asterisk-core-sounds-en-wav")
    assert english.keys() == {
        f"{name}-000000-001000.flac" for name in ("auth-thankyou", "thanks", "letters/at", "beep")
    }
    assert english["auth-thankyou-000000-001000.flac"] in captions.speech_wordings("woman", "English", "Thank you")
    assert english["letters/at-000000-001000.flac"] in captions.speech_wordings("woman", "English", "at")
    assert english["beep-000000-001000.flac"] in ("Sound effect: simple beep tone", "Simple beep tone, sound effect")
    metal = captions_in(out, "fretsonfire-songs-muldjord")
    assert metal["Muldjord/Chaos_God/guitar-005000-010000.flac"] in (
        'Death metal guitar track: "Chaos God"',
        '"Chaos God" by Muldjord, death metal guitar track',
        "Death metal guitar track by Muldjord",
    )
    unnamed = captions_in(out, "fretsonfire-songs-sectoid")["Sectoid/Feelings/song-000000-005000.flac"]
    assert unnamed in captions.music_wordings("backing track", "Feelings", "Sectoid")
    assert captions_in(out, "sonic-pi-samples")["drum_tom_hi_soft-000000-001000.flac"] in (
        "Drum sample: tom high soft",
        "Tom high soft, drum sample",
    )


def test_russian_clips_have_their_words_only_where_the_pauses_are_at_the_commas(out: Path) -> None:
    russian = captions_in(out, "festvox-ru")
    said = captions.speech_wordings("man", "Russian", "Озеро начало, ходить зыбью")
    assert russian.keys() == {"ru_1-000100-002600.flac", "ru_2-000100-002600.flac"}
    assert russian["ru_1-000100-002600.flac"] in said
    assert russian["ru_2-000100-002600.flac"] in captions.speech_wordings("man", "Russian", None)


def test_phrases_are_joined_up_to_the_longest_clip_and_keep_their_own_text() -> None:
    content = "1.0 125 pau\n" + phones(1.0, 2.0, 5) + "2.5 125 pau\n" + phones(2.5, 4.0, 4) + phones(4.0, 4.5, 0)
    phrases = prompts.parse_phrases(content + "5.0 125 pau\n" + phones(5.0, 8.0, 5))
    assert [phrase.num_phones for phrase in phrases] == [5, 4, 5]
    found = prompts.chunks_of("Озеро, рыба - лодка.", phrases, 3.0)
    assert found == [prompts.Chunk(prompts.Span(1.0, 4.0), None)]  # Two phrases in the text, three in the recording.
    found = prompts.chunks_of("Озеро, рыба, - лодка.", phrases, 3.0)
    assert [chunk.text for chunk in found] == ["Озеро, рыба", "лодка"]
    assert [chunk.span for chunk in found] == [prompts.Span(1.0, 4.0), prompts.Span(5.0, 8.0)]
    short = prompts.chunks_of("Озеро, рыба, - лодка.", phrases, 2.0)
    assert [chunk.text for chunk in short] == ["Озеро", "рыба"]  # The last one is longer than allowed.


def test_everything_that_shares_material_is_on_one_side_and_a_tenth_is_for_validation(
    out: Path, packages: Path
) -> None:
    clips = collect.plan_clips(collect.pieces_in(packages))
    sides: dict[tuple[str, str], set[str]] = {}
    for clip in clips:
        sides.setdefault((clip.piece.source, clip.piece.group), set()).add(clip.split)
    assert all(len(found) == 1 for found in sides.values())
    valid = {source: sum(found == {"valid"} for (name, _), found in sides.items() if name == source)
             for source in pieces.READERS}  # fmt: skip
    assert valid == dict.fromkeys(pieces.READERS, 1)
    together = [["auth-thankyou", "thanks"], ["loop_amen", "loop_amen_full"], ["frantic", "frantic-old"],
                ["Muldjord/Feelings/song", "Muldjord/Feelings/guitar"]]  # fmt: skip
    splits = {clip.piece.name: clip.split for clip in clips}
    assert all(len({splits[name] for name in names}) == 1 for names in together)
    groups = [f"song {number}" for number in range(40)]
    assert len(collect.valid_groups(groups, "x")) == 4
    assert collect.valid_groups(groups[::-1], "x") == collect.valid_groups(groups, "x")
    assert {row["split"] for row in rows_in(out / "clips.csv")} == {"train", "valid"}


def test_clips_are_short_mono_and_not_silent_and_long_recordings_are_spread(out: Path) -> None:
    rows = rows_in(out / "clips.csv")
    for row in rows:
        audio, rate = soundfile.read(out / row["path"])
        assert audio.ndim == 1
        assert 0.2 * rate <= len(audio) <= 5.0 * rate
        assert np.sqrt(np.mean(audio**2)) > 0.01
    assert not [
        row for row in rows if "War/guitar" in row["path"] or "rand-stream" in row["path"] or "bd_" in row["path"]
    ]
    loop = out / "clips/sonic-pi-samples/loop_amen_full-005000-010000.flac"
    whole = 0.1 * np.random.default_rng(0).standard_normal((12 * RATE, 2))
    assert np.allclose(soundfile.read(loop)[0], whole[5 * RATE : 10 * RATE].mean(1), atol=1e-4)
    assert [span.start for span in pieces.spread_spans(100.0, 4)] == [10.0, 35.0, 60.0, 85.0]
    assert pieces.spread_spans(11.0, 4) == (prompts.Span(0.0, 5.0), prompts.Span(5.0, 10.0))
    assert pieces.spread_spans(3.0, 4) == (prompts.Span(0.0, 3.0),)


def test_the_table_is_read_by_solfa_and_a_second_run_writes_the_same(out: Path, packages: Path, tmp_path: Path) -> None:
    table = (out / "clips.csv").read_bytes()
    written = {path: path.stat().st_mtime_ns for path in (out / "clips").rglob("*.flac")}
    collect.collect(packages, out)
    assert {path: path.stat().st_mtime_ns for path in (out / "clips").rglob("*.flac")} == written
    assert (out / "clips.csv").read_bytes() == table
    collect.collect(packages, tmp_path)
    assert (tmp_path / "clips.csv").read_bytes() == table
    recordings = list(open_source(out / "clips.csv").recordings())
    assert len(recordings) == len(written)
    assert all(recording.error is None and recording.caption for recording in recordings)
    assert {"source", "title", "kind", "split"} <= recordings[0].metadata.keys()


def test_wordings_differ_between_clips_but_never_between_runs() -> None:
    wordings = ("a", "b", "c")
    picked = [captions.pick(wordings, f"clip {number}") for number in range(60)]
    assert {*picked} == {*wordings}
    assert picked == [captions.pick(wordings, f"clip {number}") for number in range(60)]
    assert captions.pick(wordings, "clips/x.flac") == "c"


def test_tags_that_libsndfile_does_not_know_are_read(tmp_path: Path) -> None:
    strings = [b"vendor", b"TITLE=Knolls", b"Description=Gameplay music, intended for caves"]
    packed = [struct.pack("<I", len(text)) + text for text in strings]
    header = packed[0] + struct.pack("<I", 2) + b"".join(packed[1:])
    write(tmp_path / "knolls.ogg", b"OggS....\x03vorbis" + header + b"\x01rest")
    found = tags.read_tags(tmp_path / "knolls.ogg")
    assert found == {"title": "Knolls", "description": "Gameplay music, intended for caves"}
    write(tmp_path / "short.ogg", b"OggS....\x03vorbis" + header[:12])
    with pytest.raises(AudioError, match=r"short\.ogg: .*tags"):
        tags.read_tags(tmp_path / "short.ogg")
    write(tmp_path / "none.ogg", b"RIFF")
    with pytest.raises(AudioError, match=r"none\.ogg: expected an Ogg file"):
        tags.read_tags(tmp_path / "none.ogg")


def test_missing_packages_are_named(tmp_path: Path) -> None:
    (tmp_path / "festvox-ru").mkdir()
    with pytest.raises(ConfigError, match=r"asterisk-core-sounds-en-wav, fillets-ng-data.*apt-get"):
        collect.collect(tmp_path, tmp_path / "out")


def test_a_package_that_lacks_something_is_named(packages: Path, tmp_path: Path) -> None:
    broken = tmp_path / "festvox-ru"
    shutil.copytree(packages / "festvox-ru", broken)
    next(broken.rglob("ru_2.lab")).unlink()
    with pytest.raises(ConfigError, match=r"festvox-ru: .*ru_2\.lab"):
        collect.pieces_of(broken)
    write(next(broken.rglob("txt.done.data")), '( ru_2 "Озеро." )')
    with pytest.raises(ConfigError, match=r"found KeyError: 'ru_1'"):
        collect.pieces_of(broken)
    shutil.copytree(packages / "asterisk-core-sounds-en-wav", tmp_path / "asterisk-core-sounds-en-wav")
    with pytest.raises(ConfigError, match=r"txt\.gz: .*unpack asterisk-core-sounds-en"):
        collect.pieces_of(tmp_path / "asterisk-core-sounds-en-wav")
