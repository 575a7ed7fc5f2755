"""Operations of schedules. Written by `make docs` from the endpoints."""

from types import NoneType
from typing import Final

from postdate.client.models.schedules import (
    AcceptedSchedule,
    Backfill,
    OccurrenceList,
    Preview,
    Schedule,
    ScheduleList,
    Triggered,
)
from postdate.client.operation import Operation

CREATE_SCHEDULE: Final = Operation(
    "create_schedule", "POST", "/schedules", AcceptedSchedule, keyed=True
)
PREVIEW_UNSAVED_SCHEDULE: Final = Operation(
    "preview_unsaved_schedule", "POST", "/schedules/preview", Preview
)
LIST_SCHEDULES: Final = Operation("list_schedules", "GET", "/schedules", ScheduleList)
SHOW_SCHEDULE: Final = Operation("show_schedule", "GET", "/schedules/{schedule_id}", Schedule)
CHANGE_SCHEDULE: Final = Operation(
    "change_schedule",
    "PATCH",
    "/schedules/{schedule_id}",
    AcceptedSchedule,
    nulls=frozenset({"start_at", "end_at", "max_runs", "calendar"}),
)
DELETE_SCHEDULE: Final = Operation(
    "delete_schedule", "DELETE", "/schedules/{schedule_id}", NoneType
)
PAUSE_SCHEDULE: Final = Operation(
    "pause_schedule", "POST", "/schedules/{schedule_id}/pause", Schedule
)
RESUME_SCHEDULE: Final = Operation(
    "resume_schedule", "POST", "/schedules/{schedule_id}/resume", Schedule
)
TRIGGER_SCHEDULE: Final = Operation(
    "trigger_schedule", "POST", "/schedules/{schedule_id}/trigger", Triggered, keyed=True
)
BACKFILL_SCHEDULE: Final = Operation(
    "backfill_schedule", "POST", "/schedules/{schedule_id}/backfill", Backfill, keyed=True
)
PREVIEW_SCHEDULE: Final = Operation(
    "preview_schedule", "GET", "/schedules/{schedule_id}/preview", Preview
)
LIST_SCHEDULE_OCCURRENCES: Final = Operation(
    "list_schedule_occurrences", "GET", "/schedules/{schedule_id}/occurrences", OccurrenceList
)
