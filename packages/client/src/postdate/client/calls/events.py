"""Calls about events. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.events import Event, EventList


class Events(Group[K]):
    """What the API offers about events."""

    @call("list_events", "GET", "/events")
    def list_page(
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
        `after`: `next_cursor` of the previous page, or `now`; without it, the beginning.
        `limit`: Maximum number of events to return.
        `types`: Comma-separated types: `payment.completed`, `payment.*`.
        `subject`: Only events of this job, payment, account or schedule.
        `wait_seconds`: How long to wait for the first event.
        """

    @pages(list_page, "events")
    def list(
        self,
        *,
        after: str | None = None,
        types: str | None = None,
        subject: UUID | str | None = None,
        page_size: int = 100,
    ) -> Iterator[Event]:
        """Read events in order, wait for them, or stream them, page by page until the end.

        Each key sees the types that its scopes can read, and only events about its accounts if it
        is limited to some. With `Accept: text/event-stream` the answer is a stream; `Last-Event-
        ID` resumes it.
        `after`: `next_cursor` of the previous page, or `now`; without it, the beginning.
        `types`: Comma-separated types: `payment.completed`, `payment.*`.
        `subject`: Only events of this job, payment, account or schedule.
        """
