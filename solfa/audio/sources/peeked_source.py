"""A source that can tell whether it is empty without being listed twice."""

from collections.abc import Iterator
from itertools import chain

from solfa.audio.recording import AudioSource, Recording
from solfa.files.stores.place import Place


class PeekedSource:
    """A source that lists its recordings once for a look and what follows: large ones take long to list."""

    def __init__(self, source: AudioSource) -> None:
        self._source = source
        self._begun: Iterator[Recording] | None = None

    @property
    def root(self) -> Place:
        return self._source.root

    def is_empty(self) -> bool:
        """Look for a first recording."""
        begun = iter(self.recordings())
        first = next(begun, None)
        self._begun = None if first is None else chain([first], begun)
        return first is None

    def recordings(self) -> Iterator[Recording]:
        """List the recordings; after a look, from the listing that was begun then."""
        begun, self._begun = self._begun, None
        return self._source.recordings() if begun is None else begun
