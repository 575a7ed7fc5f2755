"""Calls about lanes. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.lanes import Lane, LaneList, PerKeyParams


class Lanes(Group[K]):
    """What the API offers about lanes."""

    @call(
        "list_lanes",
        "GET",
        "/lanes",
        columns=("lane", "paused", "ready", "pending", "running", "max_running", "rate_per_second"),
    )
    def list_page(self, *, limit: int | UnsetType = UNSET, cursor: str | None = None) -> LaneList:
        """List the lanes.

        With what waits, is ready and runs, and the limits that hold.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "lanes")
    def list(self, *, page_size: int = 100) -> Iterator[Lane]:
        """List the lanes, page by page until the end.

        With what waits, is ready and runs, and the limits that hold.
        """

    @call("show_lane", "GET", "/lanes/{lane}")
    def get(self, lane: str) -> Lane:
        """Show a lane.

        With what waits, is ready and runs, and the limits that hold.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        """

    @call("create_lane", "POST", "/lanes")
    def create(
        self,
        *,
        lane: str,
        weight: int | UnsetType = UNSET,
        width: int | UnsetType = UNSET,
        max_running: int | None = None,
        rate_per_second: float | None = None,
        per_key: PerKeyParams | None = None,
        idempotency_key: str | None = None,
    ) -> Lane:
        """Create a lane before its first job, so that its limits hold from the first.

        The first job that names a lane creates it without limits.
        `weight`: Its share relative to other lanes.
        `width`: Number of buckets it uses; can only grow.
        `max_running`: Maximum at a time, across all nodes; null is no limit.
        `rate_per_second`: Maximum starts per second, across all nodes; null is no limit.
        `per_key`: Limits and turns of each `key`; null: a key means nothing.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        """

    @call("change_lane", "PATCH", "/lanes/{lane}")
    def change(
        self,
        lane: str,
        *,
        weight: int | UnsetType = UNSET,
        width: int | UnsetType = UNSET,
        max_running: int | UnsetType | None = UNSET,
        rate_per_second: float | UnsetType | None = UNSET,
        per_key: PerKeyParams | UnsetType | None = UNSET,
    ) -> Lane:
        """Change the weight, width and limits of a lane.

        The weight decides when lanes compete; limits apply across all nodes, those of `per_key`
        to each `key` of its jobs.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        `weight`: Its share relative to other lanes.
        `width`: Number of buckets it uses; can only grow.
        `max_running`: Maximum at a time, across all nodes; null is no limit.
        `rate_per_second`: Maximum starts per second, across all nodes; null is no limit.
        `per_key`: Limits and turns of each `key`; null: a key means nothing.
        """

    @call("pause_lane", "POST", "/lanes/{lane}/pause")
    def pause(self, lane: str, *, note: str | None = None) -> Lane:
        """Pause a lane: running jobs continue, no other job starts.

        New jobs are still accepted; waiting jobs keep their due instants.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        `note`: Why, in a few words.
        """

    @call("resume_lane", "POST", "/lanes/{lane}/resume")
    def resume(self, lane: str) -> Lane:
        """Resume a paused lane.

        Jobs that came due meanwhile start immediately, within the lane's limits.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        """
