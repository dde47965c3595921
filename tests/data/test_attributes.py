"""Attributes of clips, and the two kinds of dropout doing what their names say."""

import pytest

from solfa.data.attributes import attribute_rows, draw_hidden, drop_attributes
from solfa.errors import ConfigError

IDS = [f"music/{index}.wav#0" for index in range(4_000)]
ROWS = [{"text": "a drum", "genre": "rock", "bpm": 120}] * len(IDS)


def drop(rows=ROWS, ids=IDS, *, guidance: float = 0.0, seed: int = 0, epoch: int = 0, **dropouts: float) -> list:
    return drop_attributes(rows, ids, guidance_dropout=guidance, dropouts=dropouts, seed=seed, epoch=epoch)


def absent(rows: list, name: str) -> list[bool]:
    return [row[name] is None for row in rows]


def share(flags: list[bool]) -> float:
    return sum(flags) / len(flags)


def test_attributes_come_from_captions_and_metadata_columns():
    rows = attribute_rows(
        ["a drum", None],
        [{"genre": ["rock"], "caption": "not this"}, {"tempo": 90}],
        {"text": "caption", "style": "genre", "bpm": "tempo"},
    )
    assert rows == [{"text": "a drum", "style": ["rock"], "bpm": None}, {"text": None, "style": None, "bpm": 90}]


def test_dropout_of_a_tenth_leaves_out_a_tenth_of_each_attribute_independently():
    dropped = drop(text=0.1, genre=0.5)
    text, genre = absent(dropped, "text"), absent(dropped, "genre")
    assert share(text) == pytest.approx(0.1, abs=0.02)
    assert share(genre) == pytest.approx(0.5, abs=0.03)
    assert share([a and b for a, b in zip(text, genre, strict=True)]) == pytest.approx(0.05, abs=0.015)
    assert not any(absent(dropped, "bpm"))


def test_zero_never_drops_and_one_always_does():
    assert drop(text=0.0, genre=0.0) == ROWS
    dropped = drop(text=1.0)
    assert all(absent(dropped, "text"))
    assert not any(absent(dropped, "genre"))
    assert drop(guidance=1.0) == [dict.fromkeys(ROWS[0])] * len(ROWS)


def test_guidance_dropout_leaves_out_all_attributes_together():
    dropped = drop(guidance=0.2)
    assert all(len({value is None for value in row.values()}) == 1 for row in dropped)
    assert share(absent(dropped, "text")) == pytest.approx(0.2, abs=0.02)


def test_both_dropouts_are_independent():
    dropped = drop(guidance=0.2, text=0.5)
    assert share(absent(dropped, "text")) == pytest.approx(1 - 0.8 * 0.5, abs=0.03)
    assert share(absent(dropped, "genre")) == pytest.approx(0.2, abs=0.02)


def test_a_clip_is_treated_alike_in_whatever_batch_it_stands():
    whole = drop(guidance=0.3, text=0.5, genre=0.5)
    for part in (slice(0, 1), slice(7, 31), slice(3_990, None), slice(None, None, -1000)):
        assert drop(ROWS[part], IDS[part], guidance=0.3, text=0.5, genre=0.5) == whole[part]
    only_text = [{"text": "a drum"}] * 100
    assert absent(drop(only_text, IDS[:100], text=0.5), "text") == absent(drop(text=0.5), "text")[:100]


def test_seed_and_epoch_change_the_draw():
    first = absent(drop(text=0.5), "text")
    for other in (drop(text=0.5, seed=1), drop(text=0.5, epoch=1)):
        agreeing = [a == b for a, b in zip(first, absent(other, "text"), strict=True)]
        assert share(agreeing) == pytest.approx(0.5, abs=0.03)


def test_hidden_beginnings_are_as_frequent_as_they_should_be_and_of_every_length():
    drawn = draw_hidden(IDS, 50, share=0.4, seed=3, epoch=2)
    lengths = [length for length in drawn if length]
    assert len(lengths) / len(IDS) == pytest.approx(0.4, abs=0.03)
    assert {*lengths} == {*range(1, 51)} and sum(lengths) / len(lengths) == pytest.approx(25.5, abs=1.5)
    assert draw_hidden(IDS[7:9], 50, share=0.4, seed=3, epoch=2) == drawn[7:9]
    assert draw_hidden(IDS, 50, share=0.4, seed=3, epoch=3) != drawn
    assert (
        draw_hidden(IDS[:5], 50, share=0.0, seed=3, epoch=2)
        == [0] * 5
        == draw_hidden(IDS[:5], 0, share=1.0, seed=3, epoch=2)
    )


def test_given_rows_stay_as_they_were():
    rows = [{"text": "a drum"}]
    drop(rows, ["a"], text=1.0, guidance=1.0)
    assert rows == [{"text": "a drum"}]


def test_dropout_of_an_attribute_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match=r"dropout\b.*\btxt\b"):
        drop(txt=0.1)
    assert drop([], [], text=0.1) == []
