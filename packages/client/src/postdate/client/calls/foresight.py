"""Calls about foresight. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call
from postdate.client.models.foresight import Load, Money


class Foresight(Group[K]):
    """What the API offers about foresight."""

    @call("show_load", "GET", "/foresight/load")
    def get_load(
        self,
        *,
        from_at: datetime | None = None,
        until_at: datetime | None = None,
        slot_seconds: int | timedelta | None = None,
        jobs_per_second: float | None = None,
        payments_per_second: float | None = None,
        jitter_seconds: int | timedelta | None = None,
        by: Literal["destination", "lane", "total"] | UnsetType = UNSET,
        lane: str | None = None,
        schedule_id: UUID | str | None = None,
    ) -> Load:
        """Forecast the load: what comes due, and when it exceeds the capacity.

        Counts stored work and what schedules will create (including calendars and clock changes),
        in time slots that begin at a whole minute. `queues` says when the work exceeds the
        capacity, for how long and how late it gets, at most a minute too low; `jitter_seconds`
        shows the effect of another jitter. Paused schedules are not counted, and overlaps are
        treated as allowed. Up to 100,000 stored items are counted exactly; beyond that,
        `error_percent` is the error of the estimate. A key that may not see all payments is shown
        jobs only.
        `from_at`: The next whole minute by default.
        `until_at`: A day later by default, at most a year later.
        `slot_seconds`: A multiple of 60; chosen to fit the window by default.
        `jobs_per_second`: The capacity for jobs; measured by default.
        `payments_per_second`: The capacity for payments; measured by default.
        `jitter_seconds`: Also show the effect of this jitter.
        `by`: How to break the figures down.
        `lane`: Only jobs of this lane; needs by=lane.
        `schedule_id`: Apply the jitter to this schedule only; to all by default.
        """

    @call("show_load_of_all", "GET", "/internal/foresight/load", internal=True)
    def get_load_of_all(
        self,
        *,
        from_at: datetime | None = None,
        until_at: datetime | None = None,
        slot_seconds: int | timedelta | None = None,
        jobs_per_second: float | None = None,
        payments_per_second: float | None = None,
        jitter_seconds: int | timedelta | None = None,
    ) -> Load:
        """Forecast the load of all tenants.

        For operators, with `X-Internal-Auth`; by tenant.
        `from_at`: The next whole minute by default.
        `until_at`: A day later by default, at most a year later.
        `slot_seconds`: A multiple of 60; chosen to fit the window by default.
        `jobs_per_second`: The capacity for jobs; measured by default.
        `payments_per_second`: The capacity for payments; measured by default.
        `jitter_seconds`: Also show the effect of this jitter.
        """

    @call("show_money", "GET", "/foresight/money")
    def get_money(
        self, *, until_at: datetime | None = None, account_id: str | None = None
    ) -> Money:
        """Forecast which payments will fail, and how a balance will develop.

        Simulates settlement of the open payments and the future payments of schedules on a copy
        of the accounts, in the order of settlement. Payments that wait for an approval are left
        out; one that waits for its money is assumed to be retried every hour. With up to 100,000
        open payments the whole window is simulated; beyond that, only the part until
        `known_until`.
        `until_at`: 30 days from now by default, at most a year.
        `account_id`: Project this account.
        """
