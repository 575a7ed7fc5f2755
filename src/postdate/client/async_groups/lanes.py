"""Calls about lanes. Written by `make docs` from the endpoints."""

from collections.abc import AsyncIterator

from msgspec import UNSET, UnsetType

from postdate.client.group import AsyncGroup
from postdate.client.models.lanes import Lane, LaneList
from postdate.client.operations import lanes as operations


class AsyncLanes(AsyncGroup):
    """What the API offers about lanes."""

    def list(self, *, page_size: int = 100) -> AsyncIterator[Lane]:
        """List the lanes and what waits in them, page by page until the end.

        With what waits, is ready and runs, and the limits that hold.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(
            operations.LIST_LANES, lambda page: page.lanes, query={"limit": page_size}
        )

    async def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> LaneList:
        """List the lanes and what waits in them.

        With what waits, is ready and runs, and the limits that hold.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return await self._send(operations.LIST_LANES, query={"limit": limit, "cursor": cursor})

    async def get(self, lane: str) -> Lane:
        """Show a lane.

        With what waits, is ready and runs, and the limits that hold.
        """
        return await self._send(operations.SHOW_LANE, path={"lane": lane})

    async def change(
        self,
        lane: str,
        *,
        weight: int | UnsetType = UNSET,
        width: int | UnsetType = UNSET,
        max_running: int | UnsetType | None = UNSET,
        rate_per_second: float | UnsetType | None = UNSET,
    ) -> Lane:
        """Change the weight, width and limits of a lane.

        Weight shares out what there is when lanes compete; limits hold over all nodes.
        `weight`: Its share beside others.
        `width`: Buckets it uses; only grows.
        """
        return await self._send(
            operations.CHANGE_LANE,
            path={"lane": lane},
            body={
                "weight": weight,
                "width": width,
                "max_running": max_running,
                "rate_per_second": rate_per_second,
            },
        )

    async def pause(self, lane: str, *, note: str | None = None) -> Lane:
        """Pause a lane: what runs goes on, nothing else starts.

        Jobs are still accepted and keep their instants.
        """
        return await self._send(operations.PAUSE_LANE, path={"lane": lane}, body={"note": note})

    async def resume(self, lane: str) -> Lane:
        """Resume a paused lane.

        What came due meanwhile starts at once, within the lane's limits.
        """
        return await self._send(operations.RESUME_LANE, path={"lane": lane})
