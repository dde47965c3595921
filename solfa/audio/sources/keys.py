"""Keys for recordings: stable names that never collide."""


class UniqueKeys:
    """Hand out keys: the second owner of a key gets `key#2`, the third `key#3`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def claim(self, key: str) -> str:
        """Return the key itself, or the first numbered form that is free."""
        if key not in self._counts:
            self._counts[key] = 1
            return key
        while True:
            self._counts[key] += 1
            numbered = f"{key}#{self._counts[key]}"
            if numbered not in self._counts:
                self._counts[numbered] = 1
                return numbered
