"""Calls about events. Written by `make docs` from the endpoints."""

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.group import AsyncGroup
from postdate.client.models.events import Event, EventList
from postdate.client.operations import events as operations


class AsyncEvents(AsyncGroup):
    """What the API offers about events."""

    def list(
        self,
        *,
        after: str | None = None,
        types: str | None = None,
        subject: UUID | str | None = None,
        page_size: int = 100,
    ) -> AsyncIterator[Event]:
        """Read events in order, wait for them, or stream them, page by page until the end.

        Each key sees the types that its scopes can read, and only events about its accounts if it
        is limited to some. With `Accept: text/event-stream` the answer is a stream; `Last-Event-
        ID` resumes it.
        `after`: `next_cursor` of the page before, or `now`; without it, the beginning.
        `limit`: How many events to return at most.
        `types`: Comma-separated types: `payment.completed`, `payment.*`.
        `subject`: Only events of this job, payment, account or schedule.
        `wait_seconds`: Wait so long for the first event.
        """
        return self._pages(
            operations.LIST_EVENTS,
            lambda page: page.events,
            query={"after": after, "types": types, "subject": subject, "limit": page_size},
        )

    async def list_page(
        self,
        *,
        after: str | None = None,
        limit: int | UnsetType = UNSET,
        types: str | None = None,
        subject: UUID | str | None = None,
        wait_seconds: float | timedelta | UnsetType = UNSET,
    ) -> EventList:
        """Read events in order, wait for them, or stream them.

        Each key sees the types that its scopes can read, and only events about its accounts if it
        is limited to some. With `Accept: text/event-stream` the answer is a stream; `Last-Event-
        ID` resumes it.
        `after`: `next_cursor` of the page before, or `now`; without it, the beginning.
        `limit`: How many events to return at most.
        `types`: Comma-separated types: `payment.completed`, `payment.*`.
        `subject`: Only events of this job, payment, account or schedule.
        `wait_seconds`: Wait so long for the first event.
        """
        return await self._send(
            operations.LIST_EVENTS,
            query={
                "after": after,
                "limit": limit,
                "types": types,
                "subject": subject,
                "wait_seconds": wait_seconds,
            },
        )
