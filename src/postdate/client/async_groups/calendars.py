"""Calls about calendars. Written by `make docs` from the endpoints."""

from collections.abc import AsyncIterator, Sequence
from datetime import date

from msgspec import UNSET, UnsetType

from postdate.client.group import AsyncGroup
from postdate.client.models.calendars import Calendar, CalendarList
from postdate.client.operations import calendars as operations


class AsyncCalendars(AsyncGroup):
    """What the API offers about calendars."""

    async def put(
        self,
        *,
        name: str,
        holidays: Sequence[date],
        weekend: Sequence[int] | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Calendar:
        """Upload a business calendar; schedules that follow it are computed anew.

        The next occurrences move at once where a day has opened or closed.
        `weekend`: Closed days of the week; 1 is Monday.
        """
        return await self._send(
            operations.PUT_CALENDAR,
            body={"name": name, "holidays": holidays, "weekend": weekend},
            key=idempotency_key,
        )

    def list(self, *, page_size: int = 100) -> AsyncIterator[Calendar]:
        """List business calendars, page by page until the end.

        By name.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(
            operations.LIST_CALENDARS, lambda page: page.calendars, query={"limit": page_size}
        )

    async def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> CalendarList:
        """List business calendars.

        By name.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return await self._send(operations.LIST_CALENDARS, query={"limit": limit, "cursor": cursor})

    async def get(self, name: str) -> Calendar:
        """Show a business calendar.

        Its holidays and its weekend.
        """
        return await self._send(operations.SHOW_CALENDAR, path={"name": name})

    async def delete(self, name: str) -> None:
        """Delete a business calendar that no schedule follows.

        While a schedule follows it, the answer is 409.
        """
        await self._send(operations.DELETE_CALENDAR, path={"name": name})
