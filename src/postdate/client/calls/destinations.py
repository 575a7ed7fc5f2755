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
        `url`: Where a webhook is called.
        `kind`: Which sort of queue.
        `config`: What a queue needs; stored encrypted.
        `secret`: `whsec_…` of your own; one is made if absent.
        `max_running`: Most calls at once, over all nodes.
        `rate_per_second`: Most calls a second, over all nodes.
        `force`: Register a queue whose broker cannot be reached just now.
        """

    @call("list_destinations", "GET", "/destinations")
    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> DestinationList:
        """List destinations by name.

        Secrets and queue settings are not shown.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """

    @pages(list_page, "destinations")
    def list(self, *, page_size: int = 100) -> Iterator[Destination]:
        """List destinations by name, page by page until the end.

        Secrets and queue settings are not shown.
        """

    @call("get_destination", "GET", "/destinations/{name}")
    def get(self, name: str) -> Destination:
        """Show a destination.

        `trouble` tells how it fares while calls to it are held back.
        """

    @call("change_destination", "PATCH", "/destinations/{name}")
    def change(
        self,
        name: str,
        *,
        url: str | UnsetType = UNSET,
        max_running: int | UnsetType | None = UNSET,
        rate_per_second: float | UnsetType | None = UNSET,
    ) -> Destination:
        """Change address and limits.

        What is absent stays as it is; calls under way are not affected.
        `max_running`: Most calls at once, over all nodes.
        `rate_per_second`: Most calls a second, over all nodes.
        """

    @call("delete_destination", "DELETE", "/destinations/{name}")
    def delete(self, name: str) -> None:
        """Delete a destination; jobs that still name it will fail.

        Its secret is forgotten; the name can be given again.
        """

    @call("rotate_destination_secret", "POST", "/destinations/{name}/rotate-secret")
    def rotate_secret(
        self,
        name: str,
        *,
        overlap_seconds: float | timedelta | UnsetType = UNSET,
        idempotency_key: str | None = None,
    ) -> SigningSecret:
        """Make a new secret; both sign until the overlap ends.

        Receivers can change over while calls carry both signatures.
        `overlap_seconds`: How long the secret before signs too.
        """

    @call("disable_destination", "POST", "/destinations/{name}/disable")
    def disable(self, name: str, *, reason: str | UnsetType = UNSET) -> Destination:
        """Let jobs for it fail until it is enabled again.

        A receiver that answers 410 disables its destination in the same way.
        """

    @call("enable_destination", "POST", "/destinations/{name}/enable")
    def enable(self, name: str) -> Destination:
        """Let deliveries go on.

        Jobs that failed meanwhile are in the dead letters: redrive them there.
        """

    @call("test_destination", "POST", "/destinations/{name}/test", repeatable=False)
    def test(self, name: str) -> DestinationTrial:
        """Deliver one small event now and say what came of it.

        No job is made and nothing is retried; the answer has status, duration and response.
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
        """Make a new one; both sign until the overlap ends.

        Receivers can change over while calls carry both signatures.
        `overlap_seconds`: How long the secret before signs too.
        """
