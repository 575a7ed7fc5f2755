"""Calls about calendars. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Sequence
from datetime import date

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.calendars import Calendar, CalendarList


class Calendars(Group[K]):
    """What the API offers about calendars."""

    @call(
        "list_calendars", "GET", "/calendars", columns=("name", "weekend", "holidays", "changed_at")
    )
    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> CalendarList:
        """List business calendars.

        By name.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "calendars")
    def list(self, *, page_size: int = 100) -> Iterator[Calendar]:
        """List business calendars, page by page until the end.

        By name.
        """

    @call("show_calendar", "GET", "/calendars/{name}")
    def get(self, name: str) -> Calendar:
        """Show a business calendar.

        Its holidays and its weekend.
        `name`: The name by which it is known.
        """

    @call("put_calendar", "POST", "/calendars")
    def put(
        self,
        *,
        name: str,
        holidays: Sequence[date],
        weekend: Sequence[int] | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Calendar:
        """Upload a business calendar; schedules that use it are recomputed.

        The next occurrences move immediately if a day has opened or closed.
        `name`: The calendar's name.
        `holidays`: Local dates that are closed.
        `weekend`: Closed days of the week; 1 is Monday.
        """

    @call("delete_calendar", "DELETE", "/calendars/{name}")
    def delete(self, name: str) -> None:
        """Delete a business calendar that no schedule uses.

        While a schedule uses it, the answer is 409.
        `name`: The name by which it is known.
        """
