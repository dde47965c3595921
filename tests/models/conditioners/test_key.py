"""The key of a text: every spelling, what a key consists of, and what is not a key."""

import pytest
import torch

from solfa.config import parse_config
from solfa.generate.request import with_text
from solfa.models.conditioners.key import KeyConditioner, KeyConfig, key_features
from solfa.models.conditioners.key_names import KEYS, SCALES, KeyName, key_of, neighbours
from solfa.models.conditioners.protocol import NumbersValues
from solfa.models.conditioners.set import ConditionerSet, ConditionsConfig


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("slow piano chords in A minor, 80 bpm", KeyName(9, "minor")),
        ("C sharp minor", KeyName(1, "minor")),
        ("C# major, drums", KeyName(1, "major")),
        ("a piece in D flat major", KeyName(1, "major")),
        ("Bb maj", KeyName(10, "major")),
        ("B minor", KeyName(11, "minor")),
        ("E♭ minor", KeyName(3, "minor")),
        ("in f# min", KeyName(6, "minor")),
        ("key of g major", KeyName(7, "major")),
        ("B sharp major, then C flat minor", KeyName(0, "major")),
        ("c minor", KeyName(0, "minor")),
        ("a minor problem", None),
        ("a major third, in the end", None),
        ("drums at 120 bpm", None),
        ("", None),
    ],
)
def test_a_key_is_found_however_it_is_spelled(text: str, key: KeyName | None) -> None:
    assert key_of(text) == key


def test_every_key_is_read_from_its_own_name() -> None:
    assert len({*KEYS}) == 24 and [key_of(str(key)) for key in KEYS] == list(KEYS)


def test_a_key_is_its_notes_its_triad_its_tonic_and_its_mode() -> None:
    for key in KEYS:
        notes, triad, tonic, mode = key_features(key).split([12, 12, 12, 2])
        assert {*notes.nonzero().flatten().tolist()} == {(key.tonic + step) % 12 for step in SCALES[key.mode]}
        third = 4 if key.mode == "major" else 3
        assert {*triad.nonzero().flatten().tolist()} == {(key.tonic + step) % 12 for step in (0, third, 7)}
        assert tonic.nonzero().tolist() == [[key.tonic]] and mode.tolist() == [key.mode == "major", key.mode == "minor"]
    # A minor has the notes of C major.
    assert torch.equal(key_features(KeyName(9, "minor"))[:12], key_features(KeyName(0, "major"))[:12])


def test_keys_are_embedded_alike_however_they_are_spelled_and_no_key_is_zero() -> None:
    part = KeyConditioner(parse_config(KeyConfig, {"kind": "key"}, "test"), 8)
    tokens = part.tokenize(["in C# minor", "D flat minor", "D minor", "piano", None])
    first, second, other, *_ = tokens["keys"].tolist()
    assert first == second != other
    found = part.embed(tokens)
    assert not torch.allclose(*found.embedding[1:3])
    assert found.embedding[3:].eq(0).all() and found.mask.flatten().tolist() == [True, True, True, False, False]
    assert [part.spell(value) for value in ("in C# minor", None, "piano")] == ["C# minor", "", ""]


def test_a_text_is_also_heard_for_its_key_unless_that_is_given() -> None:
    kinds = {"description": "learnt_words", "key": "key"}
    assert with_text({}, "in A minor", kinds)["key"] == "in A minor"
    assert with_text({"key": "C major"}, "in A minor", kinds)["key"] == "C major"


def test_near_misses_share_most_notes_and_are_no_two_alike() -> None:
    def notes(key: KeyName) -> set[int]:
        return {(key.tonic + step) % 12 for step in SCALES[key.mode]}

    for key in KEYS:
        *close, parallel = neighbours(key)
        assert len({key, *close, parallel}) == 5
        assert [len(notes(key) & notes(near)) for near in close] == [6, 6, 7]
        assert parallel.tonic == key.tonic
        assert key in neighbours(parallel) and all(key in neighbours(near) for near in close)


def test_rows_that_could_be_heard_instead_differ_in_the_key_alone() -> None:
    config = {"kind": "key", "source": "caption"}
    conditioners = ConditionerSet(ConditionsConfig.model_validate({"conditioners": {"key": config}}), dim=8)
    assert conditioners.near_misses({"key": "a waltz in A minor"}) == [
        {"key": "E minor"},
        {"key": "D minor"},
        {"key": "C major"},
        {"key": "A major"},
    ]
    assert conditioners.near_misses({"key": "a waltz"}) == conditioners.near_misses({}) == []


def test_a_clip_counts_as_right_on_the_tonic_in_both_modes() -> None:
    part = KeyConditioner(KeyConfig(kind="key", source="caption"), 8)
    assert isinstance(part, NumbersValues) and part.num_values == 24
    for spelled in ("organ in D flat minor", "C# major"):
        assert [str(KEYS[number]) for number in part.numbers(spelled)] == ["C# major", "C# minor"]
    assert part.numbers("a waltz") == part.numbers(None) == []
