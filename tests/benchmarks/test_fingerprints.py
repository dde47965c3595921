"""The benchmark of copies counts what it says: which pairs of clips of a loop have to be found."""

from typing import Any

import pytest

from benchmarks.fingerprints import Segment, count_loop


def place_of(length: float, times: int, seconds: float) -> dict[str, Segment]:
    starts = [seconds * number for number in range(int(times * length / seconds))]
    return {f"loop@{start}": Segment(int(start // length), start % length) for start in starts}


@pytest.mark.parametrize("length", [25.0, 27.0, 30.0])
def test_a_pair_counts_by_how_much_of_the_piece_it_shares(length: float) -> None:
    """By listing every tenth of a second of the piece that a clip plays."""
    place = place_of(length, 4, 10)
    played = {
        name: {round(10 * (segment.start + tenth / 10)) % round(10 * length) for tenth in range(100)}
        for name, segment in place.items()
    }
    names = list(place)
    pairs = [(one, other) for row, one in enumerate(names) for other in names[row + 1 :]]
    both = {pair: len(played[pair[0]] & played[pair[1]]) for pair in pairs}
    apart = [pair for pair in pairs if place[pair[0]].repetition != place[pair[1]].repetition]
    much, little = [p for p in apart if both[p] >= 50], [p for p in apart if 0 < both[p] < 50]

    def report(found: list[tuple[str, str]]) -> dict[str, Any]:
        return {"pairs": [{"id": one, "copy": other} for one, other in found]}

    counts = count_loop(report(much), place, length, 10)
    assert (counts.found, counts.expected, counts.found_less, counts.others) == (len(much), len(much), 0, 0)
    assert counts.found_again <= counts.again == sum(segment.repetition > 0 for segment in place.values())
    counts = count_loop(report([*little, pairs[0]]), place, length, 10)
    assert (counts.found, counts.found_less, counts.less, counts.others) == (0, len(little), len(little), 1)
