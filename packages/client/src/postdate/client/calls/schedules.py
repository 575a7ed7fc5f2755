"""Calls about schedules. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.schedules import (
    AcceptedSchedule,
    Backfill,
    DstParams,
    InlineCalendarParams,
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
from postdate.client.models.shared import InsufficientFundsParams


class Schedules(Group[K]):
    """What the API offers about schedules."""

    @call("create_schedule", "POST", "/schedules")
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

        The key also needs the scope that the template would need by itself.
        `cron`: Five fields: minute, hour, day of month, month, day of week.
        `every_seconds`: A fixed distance between occurrences, from `start_at` on.
        `rrule`: A rule of RFC 5545.
        `timezone`: IANA name of the zone whose wall clock counts.
        `start_at`: No occurrence is before this instant.
        `end_at`: No occurrence is at or after this instant.
        `max_runs`: The schedule ends after this number of occurrences.
        `exclude_dates`: Local dates without an occurrence.
        `roll`: Where an occurrence on a closed day goes.
        `dst`: What to do with local times that a clock change leaves out or repeats.
        `misfire`: What to do with occurrences that were missed.
        `overlap`: What to do when the occurrence before is still running.
        `jitter_seconds`: Every occurrence is later by one fixed delay of at most this many
        seconds.
        `insufficient_funds`: What to do with a payment whose payer has too little.
        `template`: What each occurrence makes: a job or a payment.
        `name`: The name by which it is known.
        `calendar`: Name of the business calendar whose closed days count.
        """

    @call("list_schedules", "GET", "/schedules")
    def list_page(
        self,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        missed: bool | UnsetType = UNSET,
        set_aside: bool | UnsetType = UNSET,
        name: str | None = None,
    ) -> ScheduleList:
        """List schedules.

        `missed` and `set_aside` find schedules that need attention.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        `missed`: Only schedules that have missed an occurrence (`last_missed_at`).
        `set_aside`: Only schedules that cannot be expanded (`set_aside_error`).
        `name`: Only schedules of exactly this name.
        """

    @pages(list_page, "schedules")
    def list(
        self,
        *,
        missed: bool | UnsetType = UNSET,
        set_aside: bool | UnsetType = UNSET,
        name: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Schedule]:
        """List schedules, page by page until the end.

        `missed` and `set_aside` find schedules that need attention.
        `missed`: Only schedules that have missed an occurrence (`last_missed_at`).
        `set_aside`: Only schedules that cannot be expanded (`set_aside_error`).
        `name`: Only schedules of exactly this name.
        """

    @call("show_schedule", "GET", "/schedules/{schedule_id}")
    def get(self, schedule_id: UUID | str) -> Schedule:
        """Show a schedule.

        With its rule in plain English and the next occurrence.
        `schedule_id`: The schedule's id.
        """

    @call("preview_unsaved_schedule", "POST", "/schedules/preview")
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
        """Preview a schedule without creating it.

        A template is checked as if it were created, and needs the same scopes.
        `cron`: Five fields: minute, hour, day of month, month, day of week.
        `every_seconds`: A fixed distance between occurrences, from `start_at` on.
        `rrule`: A rule of RFC 5545.
        `timezone`: IANA name of the zone whose wall clock counts.
        `start_at`: No occurrence is before this instant.
        `end_at`: No occurrence is at or after this instant.
        `max_runs`: The schedule ends after this number of occurrences.
        `exclude_dates`: Local dates without an occurrence.
        `roll`: Where an occurrence on a closed day goes.
        `dst`: What to do with local times that a clock change leaves out or repeats.
        `misfire`: What to do with occurrences that were missed.
        `overlap`: What to do when the occurrence before is still running.
        `jitter_seconds`: Every occurrence is later by one fixed delay of at most this many
        seconds.
        `insufficient_funds`: What to do with a payment whose payer has too little.
        `template`: What each occurrence makes: a job or a payment.
        `name`: The name by which it is known.
        `calendar`: Name of the business calendar whose closed days count.
        `count`: How many occurrences to show.
        """

    @call("change_schedule", "PATCH", "/schedules/{schedule_id}")
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
        """Change a schedule; occurrences already due keep the previous version.

        Every change creates a version; the book shows the version of each occurrence.
        `schedule_id`: The schedule's id.
        `template`: What each occurrence makes: a job or a payment.
        `name`: The name by which it is known.
        `cron`: Five fields: minute, hour, day of month, month, day of week.
        `every_seconds`: A fixed distance between occurrences, from `start_at` on.
        `rrule`: A rule of RFC 5545.
        `timezone`: IANA name of the zone whose wall clock counts.
        `start_at`: No occurrence is before this instant.
        `end_at`: No occurrence is at or after this instant.
        `max_runs`: The schedule ends after this number of occurrences.
        `exclude_dates`: Local dates without an occurrence.
        `calendar`: Name of the business calendar whose closed days count.
        `roll`: Where an occurrence on a closed day goes.
        `dst`: What to do with local times that a clock change leaves out or repeats.
        `misfire`: What to do with occurrences that were missed.
        `overlap`: What to do when the occurrence before is still running.
        `jitter_seconds`: Every occurrence is later by one fixed delay of at most this many
        seconds.
        `insufficient_funds`: What to do with a payment whose payer has too little.
        """

    @call("delete_schedule", "DELETE", "/schedules/{schedule_id}")
    def delete(self, schedule_id: UUID | str) -> None:
        """Delete a schedule; jobs and payments that it created continue.

        It has no further occurrences and cannot be resumed. Its book can still be read.
        `schedule_id`: The schedule's id.
        """

    @call("pause_schedule", "POST", "/schedules/{schedule_id}/pause")
    def pause(self, schedule_id: UUID | str, *, note: str | None = None) -> Schedule:
        """Pause a schedule: its occurrences are skipped and recorded in the book.

        A preview still shows the occurrences of its rule.
        `schedule_id`: The schedule's id.
        `note`: Why, in a few words.
        """

    @call("resume_schedule", "POST", "/schedules/{schedule_id}/resume")
    def resume(self, schedule_id: UUID | str) -> Schedule:
        """Resume a schedule that is paused or set aside.

        It continues with the next occurrence; use a backfill for skipped ones.
        `schedule_id`: The schedule's id.
        """

    @call("trigger_schedule", "POST", "/schedules/{schedule_id}/trigger")
    def trigger(self, schedule_id: UUID | str, *, idempotency_key: str | None = None) -> Triggered:
        """Run a schedule once, now.

        This run is in addition to those of its rule.
        `schedule_id`: The schedule's id.
        """

    @call("backfill_schedule", "POST", "/schedules/{schedule_id}/backfill")
    def backfill(
        self,
        schedule_id: UUID | str,
        *,
        from_: datetime,
        until: datetime,
        dry_run: bool | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> Backfill:
        """Run past occurrences that have not run; a dry run by default.

        For each occurrence in the range the answer says whether it runs, and if not, why.
        `schedule_id`: The schedule's id.
        `from_`: The first instant of the range.
        `until`: The end of the range, which is not part of it.
        `dry_run`: True changes nothing and answers what would happen.
        """

    @call("preview_schedule", "GET", "/schedules/{schedule_id}/preview")
    def preview(self, schedule_id: UUID | str, *, count: int | UnsetType = UNSET) -> Preview:
        """Preview the next occurrences of a schedule.

        Nothing is created. Closed days, clock changes and jitter are taken into account.
        `schedule_id`: The schedule's id.
        `count`: How many occurrences to show.
        """

    @call("list_schedule_occurrences", "GET", "/schedules/{schedule_id}/occurrences")
    def list_occurrences_page(
        self,
        schedule_id: UUID | str,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        status: OccurrenceStatusName | None = None,
    ) -> OccurrenceList:
        """List the book of a schedule: the result of each occurrence.

        It includes skipped, missed and merged occurrences, with the reason.
        `schedule_id`: The schedule's id.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        `status`: Where it stands.
        """

    @pages(list_occurrences_page, "occurrences")
    def list_occurrences(
        self,
        schedule_id: UUID | str,
        *,
        status: OccurrenceStatusName | None = None,
        page_size: int = 100,
    ) -> Iterator[Occurrence]:
        """List the book of a schedule: the result of each occurrence, page by page until the end.

        It includes skipped, missed and merged occurrences, with the reason.
        `schedule_id`: The schedule's id.
        `status`: Where it stands.
        """
