"""How fast work goes and how long the rest takes, if word of it comes seldom: a codec may take a minute for a batch."""


class Pace:
    """The pace of work of a known size, in any unit, by a clock in seconds."""

    def __init__(self, total: float, now: float) -> None:
        self.total = total
        self._began = self._last = now
        self._done = self._step = 0.0

    def report(self, done: float, now: float) -> None:
        """Take in how much is done."""
        self._step = max(self._step, done - self._done)
        self._done, self._last = done, now

    @property
    def rate(self) -> float:
        """Units per second from the beginning to the last report; 0 if there was none."""
        return self._done / (self._last - self._began) if self._last > self._began else 0.0

    def reached(self, now: float) -> float:
        """Estimate how much is done now: it goes on as before, though never further than one more report."""
        return min(self.total, self._done + min(self._step, self.rate * (now - self._last)))

    def seconds_left(self, now: float) -> float | None:
        """Estimate how long the rest takes; None if nothing is known yet."""
        return max(0.0, (self.total - self.reached(now)) / self.rate) if self.rate else None
