"""When to stop because too many recordings cannot be read."""

from dataclasses import dataclass

from solfa.errors import ConfigError, SolfaError


@dataclass(frozen=True)
class FailureLimit:
    """The most failed recordings allowed, as a count or a share of all that are planned; neither means no limit.

    A recording counts once, however many clips it was cut into.
    """

    count: int | None = None
    share: float | None = None

    @classmethod
    def parse(cls, text: str | int | None) -> "FailureLimit":
        """Read `1%`, `0.5%` or `20`."""
        if text is None:
            return cls()
        number, is_share = str(text).strip().removesuffix("%"), str(text).strip().endswith("%")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if value < 0 or (is_share and value > 100) or (not is_share and value != int(value)):
            raise ConfigError(f"`max_failed`: expected a count such as 20 or a share such as 1%, found {text!r}")
        return cls(share=value / 100) if is_share else cls(count=int(value))

    @property
    def is_set(self) -> bool:
        """Whether there is a limit."""
        return (self.count, self.share) != (None, None)

    def check(self, failed: int, planned: int) -> None:
        """Stop the run if more recordings failed than allowed."""
        allowed = self.count if self.count is not None else None if self.share is None else int(self.share * planned)
        if allowed is not None and failed > allowed:
            raise SolfaError(
                f"stopped: `max_failed` allows {allowed} of {planned} recordings to fail, found {failed}; "
                "committed shards are kept, and `solfa status` lists the reasons"
            )
