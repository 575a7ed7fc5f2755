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
        """Show what becomes due, and when that is too much.

        What is stored and what schedules will make (their rules, calendars and changes of the
        clock included), by slots of time that begin with a whole minute. `queues` says when the
        work is more than the capacity, from when until when and how late, at most a minute too
        little; `jitter_seconds` what another jitter would change. Paused schedules count nothing,
        and overlaps are taken as allowed. Up to 100,000 stored items are counted one by one;
        beyond, `error_percent` says how far the estimate may be off. A key that may not see all
        payments is shown jobs alone.
        `from_at`: The next whole minute by default.
        `until_at`: A day later by default, a year at the most.
        `slot_seconds`: Whole minutes; by default, as fits.
        `jobs_per_second`: The capacity; what was measured by default.
        `payments_per_second`: The same for payments.
        `jitter_seconds`: Tell what this jitter would change.
        `by`: What to tell apart.
        `lane`: Only jobs of this lane; needs by=lane.
        `schedule_id`: Whose jitter; that of all schedules by default.
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
        """Show what becomes due of all tenants.

        For operators, with `X-Internal-Auth`; by tenant.
        `from_at`: The next whole minute by default.
        `until_at`: A day later by default, a year at the most.
        `slot_seconds`: Whole minutes; by default, as fits.
        `jobs_per_second`: The capacity; what was measured by default.
        `payments_per_second`: The same for payments.
        `jitter_seconds`: Tell what this jitter would change.
        """

    @call("show_money", "GET", "/foresight/money")
    def get_money(
        self, *, until_at: datetime | None = None, account_id: str | None = None
    ) -> Money:
        """Show which payments will fail, and how a balance will go.

        The open payments and those that schedules will make are settled on a copy of the
        accounts, in the order of settlement. Payments that wait for an approval are left out; one
        that waits for its money is taken to try again every hour. Up to 100,000 open payments all
        of the window is settled; beyond, only until `known_until`.
        `until_at`: 30 days from now by default, a year at the most.
        `account_id`: Project this account.
        """
