"""The page of duplicates shows what was found, escaped, with a player for both sides of a pair."""

import numpy as np

from solfa.data.copies.copy_search import Copy, CopyPair
from solfa.data.copies.duplicate_clusters import Duplicates, Member
from solfa.ui.html.duplicates_page import render_duplicates


def found(*ids: str) -> Duplicates:
    pairs = tuple(CopyPair(one, Copy(0, other, 34, 1.5, 0.5, 3.0)) for one, other in [ids] if len(ids) == 2)
    clusters = ((Member(ids[0], 0.0), Member(ids[1], -1.5)),) if pairs else ()
    return Duplicates("x.solfa", None, 8, 1, pairs, clusters)


def test_a_pair_can_be_listened_to_from_where_it_agrees() -> None:
    heard = []

    def read(clip_id: str) -> tuple[np.ndarray, int]:
        heard.append(clip_id)
        return np.linspace(0, 1, 8000, dtype=np.float32)[None], 1000

    page = render_duplicates(found("a<b>.wav", "c.wav"), read, read, 5)
    assert heard == ["a<b>.wav", "c.wav"]
    assert page.count("<audio") == 2
    assert "a&lt;b&gt;.wav" in page and "<b>.wav" not in page
    assert "34 landmarks" in page and "-1.50 s" in page and "<script" not in page


def test_nothing_found_is_said() -> None:
    page = render_duplicates(Duplicates("x.solfa", None, 8, 0, (), ()), None, None, 5)
    assert "No two clips" in page and "<audio" not in page
