"""The recipe of solfa_tiny_music: captions are true, music is well formed, and the judge hears what is there."""

import dataclasses
import importlib.util
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import solfa
from solfa.audio import write_audio
from solfa.audio.sources.choice import open_source
from solfa.errors import ConfigError
from solfa.generate.built_in import model_release as release
from solfa.models import CodesListener, ListenerConfig
from solfa.models.listener.listener_files import LISTENER_FILES
from solfa.models.listener.network import UNHEARD
from tests.generate.tiny_music_model import export_tiny_music, put_listener

RECIPE = Path(__file__).parents[2] / "recipes" / "tiny_music"
RATE = 24_000


def load(name: str, module_name: str | None = None) -> ModuleType:
    """Import a file of the recipe under its own name, as its neighbours do when it runs as a script."""
    module_name = module_name or name
    if module_name not in sys.modules:
        found = importlib.util.spec_from_file_location(module_name, RECIPE / f"{name}.py")
        assert found is not None and found.loader is not None
        sys.modules[module_name] = importlib.util.module_from_spec(found)
        found.loader.exec_module(sys.modules[module_name])
    return sys.modules[module_name]


orchestra, harmony, spec, composition = load("orchestra"), load("harmony"), load("spec"), load("composition")
wordings, rendering, compose = load("wordings"), load("rendering"), load("compose")
listening, families, judge = load("listening"), load("families"), load("judge")
key_listener = load("key_listener")
publish = load("publish", "tiny_music_publish")  # Another recipe has a `publish`, too.

PIECES = [compose.draw_piece(0, split, number) for split in ("train", "held-out") for number in range(200)]


@pytest.fixture
def soundfont() -> Path:
    pytest.importorskip("tinysoundfont")
    try:
        return rendering.find_soundfont()
    except ConfigError as error:
        pytest.skip(str(error))


def test_a_piece_is_drawn_from_its_number_alone_and_what_is_held_out_is_never_trained_on() -> None:
    assert compose.draw_piece(0, "train", 7) == PIECES[7] != compose.draw_piece(1, "train", 7)
    sides = [{piece.spec.combination for piece in PIECES if piece.split == side} for side in ("train", "held-out")]
    assert not sides[0] & sides[1]
    assert len({piece.caption for piece in PIECES}) > 0.95 * len(PIECES)


def test_captions_say_what_is_so() -> None:
    for piece in PIECES:
        caption, made = piece.caption, piece.spec
        assert made.instrument.name in caption
        assert [int(number) for number in re.findall(r"\d+", caption)] == [made.bpm] * (
            "bpm" in caption or "per" in caption
        )
        key = re.search(r"([A-G])(#| sharp| flat)? (major|minor)", caption)
        if key is not None:
            moved = {"#": 1, " sharp": 1, " flat": -1, None: 0}[key[2]]
            tonic = (wordings.SHARPS.index(key[1]) + moved) % 12
            assert (tonic, key[3]) == (made.tonic, made.mode) and not made.is_drums
        told = {
            word for word in ("slow", "moderate", "fast") if word in caption.split(":")[0].replace(",", " ").split()
        }
        assert told <= {"slow" if made.bpm <= 88 else "fast" if made.bpm >= 112 else "moderate"}
        for words, right in ((wordings.SPARSE, made.density == "sparse"), (wordings.BUSY, made.density == "busy")):
            assert right or not {*words} & {*re.findall(r"\w+", caption)}
        assert ("waltz" in caption) == (made.beats_per_bar == 3)
        assert piece.split == "train" or (re.search(r"\d", caption) and (key is not None or made.is_drums))


def test_bars_are_whole_notes_are_in_the_key_and_in_their_register_and_the_end_is_at_home() -> None:
    for piece in PIECES:
        made, notes = piece.spec, piece.notes
        end = made.num_bars * made.beats_per_bar
        assert made.num_bars >= 2 and end * made.beat_seconds <= spec.LAST_SECONDS
        assert all((4 * note.start) % 1 == 0 and 0 <= note.start <= end and note.length > 0 for note in notes)
        assert all(1 <= note.velocity <= 127 for note in notes)
        assert any(note.start == 0 for note in notes)
        if made.is_drums:
            continue
        pitched = [note for note in notes if note.instrument != orchestra.DRUMS]
        scale = {(made.tonic + step) % 12 for step in harmony.SCALES[made.mode]}
        leading = {(made.tonic + 11) % 12} if made.mode == "minor" else set()
        assert {note.key % 12 for note in pitched} <= scale | leading
        home = set(harmony.pitch_classes(made.tonic, made.mode, 0))
        assert {note.key % 12 for note in pitched if note.start == end} <= home
        for note in pitched:
            low_hand = 18 if note.instrument.low_hand else 0
            assert note.instrument.lowest - low_hand <= note.key <= note.instrument.highest + 12


def test_progressions_go_home_and_voices_move_little() -> None:
    rng = np.random.default_rng(0)
    for mode in harmony.SCALES:
        for num_chords in range(2, 9):
            degrees = harmony.draw_progression(rng, mode, num_chords)
            assert len(degrees) == num_chords and degrees[0] == 0 and degrees[-1] in harmony.LEADS_HOME[mode]
            assert all(after in harmony.FOLLOWED_BY[mode][before] for before, after in itertools.pairwise(degrees))
            chords = [harmony.pitch_classes(3, mode, degree) for degree in degrees]
            voiced = harmony.lead_voices(chords, 55, 79, 67)
            assert [{key % 12 for key in keys} for keys in voiced] == [{*chord} for chord in chords]
            # Of two triads, the nearest close positions are at most a third apart in every voice.
            steps = [abs(a - b) for one, other in itertools.pairwise(voiced) for a, b in zip(one, other, strict=True)]
            assert max(steps) <= 5 and np.mean(steps) < 3
    assert harmony.pitch_classes(9, "minor", 4) == (4, 8, 11)  # E, G sharp, B in A minor


def clicks(bpm: float) -> np.ndarray:
    sound = np.zeros(10 * RATE, np.float32)
    rng = np.random.default_rng(0)
    for beat in range(int(9.5 * bpm / 60)):
        start = round((0.04 + beat * 60 / bpm) * RATE)
        sound[start : start + 600] += 0.5 * np.exp(-np.arange(600) / 100) * rng.standard_normal(600)
    return sound


def cadence(tonic: int, mode: str) -> np.ndarray:
    time = np.arange(5 * RATE // 2) / RATE
    parts = []
    for degree in (0, 3, 4, 0):
        notes = [48 + note for note in harmony.pitch_classes(tonic, mode, degree)]
        parts.append(sum(np.sin(2 * np.pi * 440 * 2 ** ((note - 69) / 12) * time) for note in notes))
    return np.asarray(0.1 * np.concatenate(parts), np.float32)


@pytest.mark.parametrize("bpm", [70, 83, 100, 121.5, 139])
def test_the_tempo_of_clicks_is_heard(bpm: float) -> None:
    assert abs(listening.find_tempo(clicks(bpm), RATE) / bpm - 1) < 0.01


def test_the_key_of_a_cadence_is_heard() -> None:
    for key in harmony.all_keys():
        assert listening.find_key(cadence(*key), RATE) == key


def test_silence_and_clipping_are_noticed() -> None:
    loud = clicks(100)
    assert listening.listen(1e-5 * loud, RATE).is_silent and not listening.listen(loud, RATE).is_silent
    assert (
        listening.listen(np.clip(20 * loud, -1, 1), RATE).is_clipped
        and not listening.listen(0.1 * loud, RATE).is_clipped
    )


def test_a_classifier_learns_timbres_whatever_their_loudness() -> None:
    sounds = {
        "drums": [clicks(bpm) for bpm in (75, 90, 110, 130)],
        "organ": [cadence(tonic, "major") for tonic in range(4)],
    }
    described = {name: np.stack([families.describe(sound, RATE) for sound in group]) for name, group in sounds.items()}
    np.testing.assert_allclose(families.describe(0.1 * sounds["organ"][0], RATE), described["organ"][0], atol=1e-2)
    taught = np.concatenate([group[:2] for group in described.values()])
    classifier = families.train_classifier(taught, ["drums", "drums", "organ", "organ"])
    assert classifier.classify(np.concatenate([described["organ"][2:], described["drums"][2:]])) == [
        *["organ"] * 2,
        *["drums"] * 2,
    ]


def test_a_clip_is_levelled_without_clipping_and_fades() -> None:
    sound = 0.01 * cadence(0, "major")
    finished = rendering.finish(sound, 2.0)
    before = len(sound) - round(rendering.FADE_SECONDS * RATE)
    np.testing.assert_allclose(finished[:before], 2.0 * sound[:before], rtol=1e-6)
    assert abs(finished[-1]) < 1e-6
    assert np.abs(rendering.finish(clicks(70), 100.0)).max() == pytest.approx(rendering.PEAK)


def test_notes_begin_with_a_frame_and_the_same_note_is_the_same_sound(soundfont: Path) -> None:
    player, organ = rendering.Player(soundfont), orchestra.INSTRUMENTS[2]
    for bpm in (70, 101, 139):
        made = dataclasses.replace(PIECES[0].spec, instrument=organ, bpm=bpm)
        notes = [composition.Note(organ, 60, start, 0.5, 80) for start in (0.0, 4.0, 9.0)]
        sound = player.render(made, notes)
        frame = RATE // rendering.FRAME_RATE
        starts = [round(note.start * made.beat_seconds * rendering.FRAME_RATE) * frame for note in notes]
        heard = np.stack([sound[start : start + round(0.2 * RATE)] for start in starts])
        # The resampler is the same at every frame; what differs is float32.
        np.testing.assert_allclose(heard[1:], heard[:1].repeat(2, axis=0), atol=1e-4)
        assert np.abs(sound[starts[1] - frame : starts[1] - 40]).max() < 1e-3 < np.abs(heard[1]).max()


def test_renders_are_the_same_every_time_and_sound_as_their_captions_say(soundfont: Path, tmp_path: Path) -> None:
    pieces = [compose.draw_piece(3, "held-out", number) for number in range(6)]
    assert any(piece.spec.is_drums for piece in pieces)
    assert len(list(compose.render_pieces(pieces, tmp_path, 1))) == 6
    first = {piece.path: (tmp_path / piece.path).stat().st_mtime_ns for piece in pieces}
    assert len(list(compose.render_pieces(pieces, tmp_path, 1))) == 6
    assert first == {path: (tmp_path / path).stat().st_mtime_ns for path in first}
    table = compose.write_table(tmp_path, "held-out", pieces)
    listed = list(open_source(table).recordings())
    assert [recording.metadata["caption"] for recording in listed] == [piece.caption for piece in pieces]
    player, in_other_keys = rendering.Player(soundfont), []
    for piece in pieces:
        sound = judge.read_sound(tmp_path / piece.path, RATE)
        again = player.render(piece.spec, piece.notes)
        assert len(sound) == 10 * RATE and np.abs(sound - again).max() < 2**-22  # FLAC of 24 bits
        heard = listening.listen(sound, RATE)
        assert abs(heard.bpm / piece.spec.bpm - 1) <= 0.04 and not heard.is_silent and not heard.is_clipped
        if not piece.spec.is_drums and heard.tonic != piece.spec.tonic:
            in_other_keys.append(piece)
    assert len(in_other_keys) <= 1  # a melody alone can be heard in two keys


def test_the_judge_finds_the_renders_right_and_others_wrong(tmp_path: Path) -> None:
    rows = ["path,caption,family,tonic,mode,bpm"]
    for number, bpm in enumerate((75, 90, 110, 130)):
        write_audio(tmp_path / f"{number}.wav", clicks(bpm)[None], RATE)
        rows.append(f"{number}.wav,drums,drums,,,{bpm}")
    for number, tonic in enumerate("CDEF", start=4):
        write_audio(tmp_path / f"{number}.wav", cadence(wordings.SHARPS.index(tonic), "minor")[None], RATE)
        rows.append(f"{number}.wav,organ,organ,{tonic},minor,96")
    for split in ("train", "held-out"):
        (tmp_path / f"{split}.csv").write_text("\n".join(rows) + "\n")
    codecs = {"1 codebook": solfa.load_codec("solfa_24khz", num_codebooks=1)}
    known = judge.read_table(tmp_path / "held-out.csv", 8)
    judge.write_ceilings(tmp_path / "judged", known, codecs)
    classifier = judge.teach(tmp_path, list(codecs.values()), 8)
    found = judge.judge_set(tmp_path / "judged/renders", known, classifier, None, "mel")
    assert (found["family"], found["root"], found["key"], found["silent"], found["clipped"]) == (1.0, 1.0, 1.0, 0, 0)
    assert found["tempo"] >= 0.5  # of the clicks; chords of 2.5 s are 96 bpm with every fourth beat
    wrong = judge.judge_set(tmp_path / "judged/renders", [*known[4:], *known[:4]], classifier, None, "mel")
    assert (wrong["family"], wrong["tempo"]) == (0.0, 0.0)
    assert "| renders | 8 | 100 % |" in judge.as_table({"renders": found})


def test_a_listener_is_told_the_notes_that_sound() -> None:
    for piece in (piece for piece in PIECES[:60] if not piece.spec.is_drums):
        sounding = key_listener.pitch_classes_over_time(piece.path, 750)
        scale = harmony.SCALES[piece.spec.mode]
        allowed = {(piece.spec.tonic + step) % 12 for step in (*scale, 11)}  # and the leading note, in minor
        assert set(np.flatnonzero(sounding.any(axis=1))) <= allowed
        assert sounding[piece.spec.tonic, 690] == 1.0, "the last chord is held"
        first = piece.notes[0]
        assert sounding[first.key % 12, 0] == 1.0 and first.start == 0.0
    frames = torch.rand(2, 12, 37)
    found = key_listener.at_steps(frames, 8)
    assert found.shape == (2, 12, 5)
    for step in range(5):
        around = [frames[:, :, frame] for frame in range(8 * step - 4, 8 * step + 4) if 0 <= frame < 37]
        assert torch.allclose(found[:, :, step], torch.stack(around).sum(dim=0) / 8)


def test_a_listener_learns_from_codes_that_are_disturbed() -> None:
    torch.manual_seed(0)
    keys = torch.arange(96) % 4
    codes = keys[:, None, None] + 4 * torch.randint(0, 3, (96, 2, 32))
    disturbed = key_listener.disturb(codes, 12)
    assert disturbed.shape == codes.shape and (disturbed == UNHEARD).any() and disturbed.max() < 12
    assert 0.4 < float((disturbed == codes).float().mean()) < 0.9
    sounding = torch.nn.functional.one_hot(keys % 12, 12).float()[:, :, None].expand(-1, -1, 32)
    shape = {"num_codebooks": 2, "codebook_size": 12, "codec_fingerprint": "0" * 64}
    size = {"embedding_dim": 8, "widths": (16,), "hidden_dim": 16, "end_frames": 8}
    listener = CodesListener(ListenerConfig.model_validate({"condition": "key", "num_values": 24, **shape, **size}))
    pieces = key_listener.Pieces(codes, keys, sounding)
    losses = list(key_listener.teach(listener, pieces, 25))
    root, key = key_listener.accuracies(listener, pieces)
    assert losses[-1] < 0.7 * losses[0] and root >= key > 0.5, "chance is 0.25"


def test_what_is_published_is_loaded_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    monkeypatch.setattr(release, "ROOT", package)
    exported = export_tiny_music(tmp_path / "exported")
    about = publish.publish(exported, release.TINY_MUSIC, 1, "| family |", root=package)
    assert solfa.load_model(release.TINY_MUSIC, device="cpu").info.folder == package / release.TINY_MUSIC
    assert about.fingerprint == release.files_fingerprint(exported)
    card = (package / release.TINY_MUSIC / "README.md").read_text()
    assert card.startswith("# A tiny model\n") and "| family |" in card and "TimGM6mb" in card
    assert publish.publish(exported, release.TINY_MUSIC, 1, root=package) == about
    with pytest.raises(ConfigError, match=r"version 1 .*replace"):
        publish.publish(exported, release.TINY_MUSIC, 2, root=package)


def test_a_listener_is_published_with_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    monkeypatch.setattr(release, "ROOT", package)
    exported = export_tiny_music(tmp_path / "exported", has_key=True)
    alone = release.files_fingerprint(exported)
    put_listener(exported)
    about = publish.publish(exported, release.TINY_MUSIC, 1, root=package)
    assert about.fingerprint == release.files_fingerprint(exported) != alone
    assert solfa.load_model(release.TINY_MUSIC, device="cpu").provenance["listener_sha256"]
    weights = package / release.TINY_MUSIC / LISTENER_FILES[1]
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(ConfigError, match="damaged or were replaced"):
        solfa.load_model(release.TINY_MUSIC, device="cpu")
    both = sum((exported / name).stat().st_size for name in ("model.safetensors", LISTENER_FILES[1]))
    monkeypatch.setattr(publish, "MAX_BYTES", both - 1)
    with pytest.raises(ConfigError, match=f"found {both:,}"):
        publish.publish(exported, "tiny", 1, root=package)


def test_what_does_not_belong_into_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = export_tiny_music(tmp_path / "other", codec_fingerprint="0" * 64)
    with pytest.raises(ConfigError, match=r"found a model of 0000.*train it again"):
        publish.publish(other, "tiny", 1, root=tmp_path / "package")
    untold = export_tiny_music(tmp_path / "untold", kind="labels")
    with pytest.raises(ConfigError, match=r"expected a model that is told a text"):
        publish.publish(untold, "tiny", 1, root=tmp_path / "package")
    monkeypatch.setattr(publish, "MAX_BYTES", 1_000)
    with pytest.raises(ConfigError, match=r"at most 1,000 bytes.*--half"):
        publish.publish(export_tiny_music(tmp_path / "exported"), "tiny", 1, root=tmp_path / "package")
    assert not (tmp_path / "package").exists()
