"""Calls about destinations. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.destinations import (
    CreatedDestination,
    Destination,
    DestinationList,
    DestinationTrial,
    DestinationTypeName,
    SigningSecret,
)


class Destinations(Group[K]):
    """What the API offers about destinations."""

    @call(
        "list_destinations",
        "GET",
        "/destinations",
        columns=("name", "type", "status", "url", "max_running", "rate_per_second"),
    )
    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> DestinationList:
        """List destinations by name.

        Secrets and queue settings are not shown.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        """

    @pages(list_page, "destinations")
    def list(self, *, page_size: int = 100) -> Iterator[Destination]:
        """List destinations by name, page by page until the end.

        Secrets and queue settings are not shown.
        """

    @call("get_destination", "GET", "/destinations/{name}")
    def get(self, name: str) -> Destination:
        """Show a destination.

        `trouble` shows its state while calls to it are held back.
        `name`: The name by which it is known.
        """

    @call("create_destination", "POST", "/destinations")
    def create(
        self,
        *,
        name: str,
        type: DestinationTypeName | UnsetType = UNSET,
        url: str | None = None,
        kind: str | None = None,
        config: Mapping[str, Any] | None = None,
        secret: str | None = None,
        max_running: int | None = None,
        rate_per_second: float | None = None,
        force: bool | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> CreatedDestination:
        """Create a destination; a webhook's secret is shown only now.

        A job or a subscription then names it instead of an address, and shares its limits.
        `name`: The name by which it is known.
        `type`: How it is reached.
        `url`: The address of a webhook.
        `kind`: The kind of queue.
        `config`: The settings of a queue; stored encrypted.
        `secret`: Your own `whsec_…` secret; generated if absent.
        `max_running`: Maximum at a time, across all nodes; null is no limit.
        `rate_per_second`: Maximum starts per second, across all nodes; null is no limit.
        `force`: Register a queue even if its broker cannot be reached.
        """

    @call("change_destination", "PATCH", "/destinations/{name}")
    def change(
        self,
        name: str,
        *,
        url: str | UnsetType | None = UNSET,
        max_running: int | UnsetType | None = UNSET,
        rate_per_second: float | UnsetType | None = UNSET,
    ) -> Destination:
        """Change the address and limits of a destination.

        Absent fields stay as they are; running calls are not affected.
        `name`: The name by which it is known.
        `url`: The address of a webhook.
        `max_running`: Maximum at a time, across all nodes; null is no limit.
        `rate_per_second`: Maximum starts per second, across all nodes; null is no limit.
        """

    @call("delete_destination", "DELETE", "/destinations/{name}")
    def delete(self, name: str) -> None:
        """Delete a destination; jobs that name it will fail.

        Its secret is deleted; the name can be reused.
        `name`: The name by which it is known.
        """

    @call("rotate_destination_secret", "POST", "/destinations/{name}/rotate-secret")
    def rotate_secret(
        self,
        name: str,
        *,
        overlap_seconds: float | timedelta | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> SigningSecret:
        """Rotate a destination's secret; both sign until the overlap ends.

        Receivers can change over while calls carry both signatures.
        `name`: The name by which it is known.
        `overlap_seconds`: How long the previous one stays valid.
        """

    @call("disable_destination", "POST", "/destinations/{name}/disable")
    def disable(self, name: str, *, reason: str | UnsetType = UNSET) -> Destination:
        """Disable a destination: its jobs fail until it is enabled again.

        A receiver that answers 410 disables its destination in the same way.
        `name`: The name by which it is known.
        `reason`: Why; it stands in the event and the audit.
        """

    @call("enable_destination", "POST", "/destinations/{name}/enable")
    def enable(self, name: str) -> Destination:
        """Enable a destination.

        Jobs that failed meanwhile are in the dead letters: redrive them there.
        `name`: The name by which it is known.
        """

    @call("pause_destination", "POST", "/destinations/{name}/pause")
    def pause(self, name: str, *, reason: str) -> Destination:
        """Pause a destination: its jobs and events wait, and no attempt is spent.

        Calls that run end normally. A job whose `expires_at` or `max_age_seconds` passes
        meanwhile fails, as in a paused lane.
        `name`: The name by which it is known.
        `reason`: Why; shown with each waiting job.
        """

    @call("resume_destination", "POST", "/destinations/{name}/resume")
    def resume(self, name: str, *, reason: str | None = None) -> Destination:
        """Resume a paused destination.

        What waited is sent within half a minute, within the destination's limits.
        `name`: The name by which it is known.
        `reason`: Why; it stands in the event.
        """

    @call("test_destination", "POST", "/destinations/{name}/test", repeatable=False)
    def test(self, name: str) -> DestinationTrial:
        """Send a test event to a destination and return the result.

        No job is created and nothing is retried; the answer has status, duration and response.
        `name`: The name by which it is known.
        """

    @call("get_signing_secret", "GET", "/signing-secret")
    def get_signing_secret(self) -> SigningSecret:
        """Show the secret that signs jobs with a bare URL.

        Receivers verify with it the webhooks of jobs that name no destination.
        """

    @call("rotate_signing_secret", "POST", "/signing-secret/rotate")
    def rotate_signing_secret(
        self,
        *,
        overlap_seconds: float | timedelta | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> SigningSecret:
        """Rotate the tenant's signing secret; both sign until the overlap ends.

        Receivers can change over while calls carry both signatures.
        `overlap_seconds`: How long the previous one stays valid.
        """
