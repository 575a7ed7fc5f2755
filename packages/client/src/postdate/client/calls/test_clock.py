"""Calls about test clock. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator
from datetime import datetime

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.test_clock import AdvancedClock, ClockEntry, ClockEntryList, ClockState


class TestClock(Group[K]):
    """What the API offers about test clock."""

    @call("get_test_clock", "GET", "/test-clock")
    def get(self) -> ClockState:
        """Read the test clock.

        What the clock of a tenant in test mode shows, and how far an advance that is not finished
        was going.
        """

    @call("advance_test_clock", "POST", "/test-clock/advance")
    def advance(
        self,
        *,
        by: str | None = None,
        to: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> AdvancedClock:
        """Advance the test clock, and run what comes due.

        Goes from one due instant to the next, and does what is due at each, in order: ends of
        halts and approvals, schedules, payments, jobs, deliveries of events. Webhooks and
        messages are really sent. The same `Idempotency-Key` continues or repeats the answer; it
        never advances twice. Refused for every live tenant.
        `by`: A duration: `90s`, `15m`, `12h`, `30d`, `2w`, `1d12h`.
        `to`: An instant, not before the clock's current time.
        """

    @call("list_test_clock_entries", "GET", "/test-clock/entries")
    def list_entries_page(
        self,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        advance: int | None = None,
    ) -> ClockEntryList:
        """List what happened while the test clock was advanced.

        In order, of one advance or of all. Beside the tenant's events there are `job.ready` (a
        worker's job came due), `lease.expired`, `subscription.delivered` and
        `subscription.failed`.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        `advance`: Only entries of the advance with this number.
        """

    @pages(list_entries_page, "entries")
    def list_entries(
        self, *, advance: int | None = None, page_size: int = 100
    ) -> Iterator[ClockEntry]:
        """List what happened while the test clock was advanced, page by page until the end.

        In order, of one advance or of all. Beside the tenant's events there are `job.ready` (a
        worker's job came due), `lease.expired`, `subscription.delivered` and
        `subscription.failed`.
        `advance`: Only entries of the advance with this number.
        """
