"""A look into a source costs no second listing."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from solfa.audio.recording import Recording
from solfa.audio.sources.peeked_source import PeekedSource


@dataclass
class Counted:
    """A source that counts how often it was listed."""

    names: list[str]
    root: Path = Path("/audio")
    listings: list[int] = field(default_factory=list)

    def recordings(self) -> Iterator[Recording]:
        self.listings.append(1)
        return (Recording(name, name) for name in self.names)


def test_a_look_and_the_listing_after_it_are_one() -> None:
    source = Counted(["a", "b"])
    peeked = PeekedSource(source)
    assert not peeked.is_empty() and not peeked.is_empty()
    assert [recording.key for recording in peeked.recordings()] == ["a", "b"]
    assert len(source.listings) == 1 and peeked.root == source.root


def test_later_listings_begin_anew() -> None:
    source = Counted(["a"])
    peeked = PeekedSource(source)
    for times in (1, 2):
        assert len(list(peeked.recordings())) == 1 and len(source.listings) == times
    assert PeekedSource(Counted([])).is_empty()
