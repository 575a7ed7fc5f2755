"""A second opinion on the book of a schedule that ticks every minute, told in the plainest way.

It shares nothing with the product but the words. Time goes in rounds: each brings some minutes, of
which the last is in time and all others are late; between rounds somebody may end what is open.
"""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass
class BookOracle:
    """What one schedule's book must say, and how many of its jobs must be open."""

    misfire: str
    overlap: str
    book: dict[datetime, str] = field(default_factory=dict)
    open_jobs: int = 0
    buffered: datetime | None = None

    def round(self, minutes: list[datetime]) -> None:
        """Let some minutes be due at once."""
        *late, in_time = minutes
        for number, minute in enumerate(late):
            newest = number == len(late) - 1
            if self.misfire == "skip" or (self.misfire == "fire_once" and not newest):
                self.book[minute] = "MISSED"
            else:
                self._run(minute, "LATE")
        self._run(in_time, "FIRED")

    def end_open_jobs(self) -> None:
        """End every job; what waited for that runs."""
        self.open_jobs = 0
        if self.buffered is not None:
            self.book[self.buffered] = "FIRED"
            self.buffered = None
            self.open_jobs = 1

    def _run(self, minute: datetime, label: str) -> None:
        if self.open_jobs and self.overlap == "skip":
            self.book[minute] = "SKIPPED_BY_OVERLAP"
        elif self.open_jobs and self.overlap == "buffer_one":
            if self.buffered is not None:
                self.book[self.buffered] = "SKIPPED_BY_OVERLAP"
            self.book[minute], self.buffered = "BUFFERED", minute
        else:
            self.book[minute] = label
            self.open_jobs = self.open_jobs + 1 if self.overlap == "allow" else 1
