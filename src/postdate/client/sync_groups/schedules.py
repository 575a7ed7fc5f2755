"""Calls about schedules. Written by `make docs` from the endpoints."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.schedules import (
    AcceptedSchedule,
    Backfill,
    DstParams,
    InlineCalendarParams,
    InsufficientFundsParams,
    MisfireParams,
    Occurrence,
    OccurrenceList,
    OccurrenceStatusName,
    OverlapName,
    Preview,
    RollName,
    Schedule,
    ScheduleList,
    TemplateParams,
    Triggered,
)
from postdate.client.operations import schedules as operations


class Schedules(Group):
    """What the API offers about schedules."""

    def create(
        self,
        *,
        template: TemplateParams,
        cron: str | None = None,
        every_seconds: int | timedelta | None = None,
        rrule: str | None = None,
        timezone: str | UnsetType = UNSET,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        max_runs: int | None = None,
        exclude_dates: Sequence[date] | UnsetType = UNSET,
        roll: RollName | UnsetType = UNSET,
        dst: DstParams | UnsetType = UNSET,
        misfire: MisfireParams | UnsetType = UNSET,
        overlap: OverlapName | UnsetType = UNSET,
        jitter_seconds: int | timedelta | UnsetType = UNSET,
        insufficient_funds: InsufficientFundsParams | UnsetType = UNSET,
        name: str | UnsetType = UNSET,
        calendar: str | None = None,
        idempotency_key: str | None = None,
    ) -> AcceptedSchedule:
        """Create a schedule.

        The key also needs the scope that its template would need by itself.
        """
        return self._send(
            operations.CREATE_SCHEDULE,
            body={
                "cron": cron,
                "every_seconds": every_seconds,
                "rrule": rrule,
                "timezone": timezone,
                "start_at": start_at,
                "end_at": end_at,
                "max_runs": max_runs,
                "exclude_dates": exclude_dates,
                "roll": roll,
                "dst": dst,
                "misfire": misfire,
                "overlap": overlap,
                "jitter_seconds": jitter_seconds,
                "insufficient_funds": insufficient_funds,
                "template": template,
                "name": name,
                "calendar": calendar,
            },
            key=idempotency_key,
        )

    def preview_unsaved(
        self,
        *,
        cron: str | None = None,
        every_seconds: int | timedelta | None = None,
        rrule: str | None = None,
        timezone: str | UnsetType = UNSET,
        start_at: datetime | None = None,
        end_at: datetime | None = None,
        max_runs: int | None = None,
        exclude_dates: Sequence[date] | UnsetType = UNSET,
        roll: RollName | UnsetType = UNSET,
        dst: DstParams | UnsetType = UNSET,
        misfire: MisfireParams | UnsetType = UNSET,
        overlap: OverlapName | UnsetType = UNSET,
        jitter_seconds: int | timedelta | UnsetType = UNSET,
        insufficient_funds: InsufficientFundsParams | UnsetType = UNSET,
        template: TemplateParams | None = None,
        name: str | UnsetType = UNSET,
        calendar: str | InlineCalendarParams | None = None,
        count: int | UnsetType = UNSET,
    ) -> Preview:
        """Show what a schedule would do, without creating it.

        A template is checked as if it were created, and needs the same scopes.
        """
        return self._send(
            operations.PREVIEW_UNSAVED_SCHEDULE,
            body={
                "cron": cron,
                "every_seconds": every_seconds,
                "rrule": rrule,
                "timezone": timezone,
                "start_at": start_at,
                "end_at": end_at,
                "max_runs": max_runs,
                "exclude_dates": exclude_dates,
                "roll": roll,
                "dst": dst,
                "misfire": misfire,
                "overlap": overlap,
                "jitter_seconds": jitter_seconds,
                "insufficient_funds": insufficient_funds,
                "template": template,
                "name": name,
                "calendar": calendar,
                "count": count,
            },
        )

    def list(
        self,
        *,
        missed: bool | UnsetType = UNSET,
        set_aside: bool | UnsetType = UNSET,
        page_size: int = 100,
    ) -> Iterator[Schedule]:
        """List schedules, page by page until the end.

        `missed` and `set_aside` find those that need a look.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        `missed`: Only those that have missed an occurrence; `last_missed_at`.
        `set_aside`: Only those that cannot be expanded; `set_aside_error`.
        """
        return self._pages(
            operations.LIST_SCHEDULES,
            lambda page: page.schedules,
            query={"missed": missed, "set_aside": set_aside, "limit": page_size},
        )

    def list_page(
        self,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        missed: bool | UnsetType = UNSET,
        set_aside: bool | UnsetType = UNSET,
    ) -> ScheduleList:
        """List schedules.

        `missed` and `set_aside` find those that need a look.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        `missed`: Only those that have missed an occurrence; `last_missed_at`.
        `set_aside`: Only those that cannot be expanded; `set_aside_error`.
        """
        return self._send(
            operations.LIST_SCHEDULES,
            query={"limit": limit, "cursor": cursor, "missed": missed, "set_aside": set_aside},
        )

    def get(self, schedule_id: UUID | str) -> Schedule:
        """Show a schedule.

        With its rule in plain English and the next occurrence.
        """
        return self._send(operations.SHOW_SCHEDULE, path={"schedule_id": schedule_id})

    def change(
        self,
        schedule_id: UUID | str,
        *,
        template: TemplateParams | UnsetType = UNSET,
        name: str | UnsetType = UNSET,
        cron: str | UnsetType = UNSET,
        every_seconds: int | timedelta | UnsetType = UNSET,
        rrule: str | UnsetType = UNSET,
        timezone: str | UnsetType = UNSET,
        start_at: datetime | UnsetType | None = UNSET,
        end_at: datetime | UnsetType | None = UNSET,
        max_runs: int | UnsetType | None = UNSET,
        exclude_dates: Sequence[date] | UnsetType = UNSET,
        calendar: str | UnsetType | None = UNSET,
        roll: RollName | UnsetType = UNSET,
        dst: DstParams | UnsetType = UNSET,
        misfire: MisfireParams | UnsetType = UNSET,
        overlap: OverlapName | UnsetType = UNSET,
        jitter_seconds: int | timedelta | UnsetType = UNSET,
        insufficient_funds: InsufficientFundsParams | UnsetType = UNSET,
    ) -> AcceptedSchedule:
        """Change a schedule; what is due already is left to the version before.

        Every change is a version of its own; the book says which version made what.
        """
        return self._send(
            operations.CHANGE_SCHEDULE,
            path={"schedule_id": schedule_id},
            body={
                "template": template,
                "name": name,
                "cron": cron,
                "every_seconds": every_seconds,
                "rrule": rrule,
                "timezone": timezone,
                "start_at": start_at,
                "end_at": end_at,
                "max_runs": max_runs,
                "exclude_dates": exclude_dates,
                "calendar": calendar,
                "roll": roll,
                "dst": dst,
                "misfire": misfire,
                "overlap": overlap,
                "jitter_seconds": jitter_seconds,
                "insufficient_funds": insufficient_funds,
            },
        )

    def delete(self, schedule_id: UUID | str) -> None:
        """Delete a schedule; what it has made goes on, and its book can be read.

        The schedule ends: it has no further occurrence and cannot be resumed.
        """
        self._send(operations.DELETE_SCHEDULE, path={"schedule_id": schedule_id})

    def pause(self, schedule_id: UUID | str, *, note: str | None = None) -> Schedule:
        """Pause a schedule: its occurrences are skipped and noted in the book.

        A preview still shows what its rule says.
        """
        return self._send(
            operations.PAUSE_SCHEDULE, path={"schedule_id": schedule_id}, body={"note": note}
        )

    def resume(self, schedule_id: UUID | str) -> Schedule:
        """Resume a schedule that is paused or set aside.

        Goes on with the next occurrence; use a backfill for those that were skipped.
        """
        return self._send(operations.RESUME_SCHEDULE, path={"schedule_id": schedule_id})

    def trigger(self, schedule_id: UUID | str, *, idempotency_key: str | None = None) -> Triggered:
        """Run a schedule once, now.

        In addition to its rule, which goes on as before.
        """
        return self._send(
            operations.TRIGGER_SCHEDULE, path={"schedule_id": schedule_id}, key=idempotency_key
        )

    def backfill(
        self,
        schedule_id: UUID | str,
        *,
        from_: datetime,
        until: datetime,
        dry_run: bool | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Run what has not run in the past; a dry run unless told otherwise.

        For each occurrence of the window the answer says whether it runs, and if not, why.
        """
        return self._send(
            operations.BACKFILL_SCHEDULE,
            path={"schedule_id": schedule_id},
            body={"from": from_, "until": until, "dry_run": dry_run},
            key=idempotency_key,
        )

    def preview(self, schedule_id: UUID | str, *, count: int | UnsetType = UNSET) -> Preview:
        """Show the next occurrences and what each policy does to them.

        Nothing is made. Closed days, clock changes and spreads are taken into account.
        """
        return self._send(
            operations.PREVIEW_SCHEDULE, path={"schedule_id": schedule_id}, query={"count": count}
        )

    def list_occurrences(
        self,
        schedule_id: UUID | str,
        *,
        status: OccurrenceStatusName | None = None,
        page_size: int = 100,
    ) -> Iterator[Occurrence]:
        """List the book: what became of each occurrence, page by page until the end.

        Skipped, missed and merged occurrences stand in it too, with the reason.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(
            operations.LIST_SCHEDULE_OCCURRENCES,
            lambda page: page.occurrences,
            path={"schedule_id": schedule_id},
            query={"status": status, "limit": page_size},
        )

    def list_occurrences_page(
        self,
        schedule_id: UUID | str,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        status: OccurrenceStatusName | None = None,
    ) -> OccurrenceList:
        """List the book: what became of each occurrence.

        Skipped, missed and merged occurrences stand in it too, with the reason.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._send(
            operations.LIST_SCHEDULE_OCCURRENCES,
            path={"schedule_id": schedule_id},
            query={"limit": limit, "cursor": cursor, "status": status},
        )
