"""Calls about destinations. Written by `make docs` from the endpoints."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.destinations import (
    CreatedDestination,
    Destination,
    DestinationList,
    DestinationTrial,
    DestinationTypeName,
    SigningSecret,
)
from postdate.client.operations import destinations as operations


class Destinations(Group):
    """What the API offers about destinations."""

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
        return self._send(
            operations.CREATE_DESTINATION,
            body={
                "name": name,
                "type": type,
                "url": url,
                "kind": kind,
                "config": config,
                "secret": secret,
                "max_running": max_running,
                "rate_per_second": rate_per_second,
                "force": force,
            },
            key=idempotency_key,
        )

    def list(self, *, page_size: int = 100) -> Iterator[Destination]:
        """List destinations by name, page by page until the end.

        Secrets and queue settings are not shown.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._pages(
            operations.LIST_DESTINATIONS, lambda page: page.destinations, query={"limit": page_size}
        )

    def list_page(
        self, *, limit: int | UnsetType = UNSET, cursor: str | None = None
    ) -> DestinationList:
        """List destinations by name.

        Secrets and queue settings are not shown.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        """
        return self._send(operations.LIST_DESTINATIONS, query={"limit": limit, "cursor": cursor})

    def get(self, name: str) -> Destination:
        """Show a destination.

        `trouble` tells how it fares while calls to it are held back.
        """
        return self._send(operations.GET_DESTINATION, path={"name": name})

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
        return self._send(
            operations.CHANGE_DESTINATION,
            path={"name": name},
            body={"url": url, "max_running": max_running, "rate_per_second": rate_per_second},
        )

    def delete(self, name: str) -> None:
        """Delete a destination; jobs that still name it will fail.

        Its secret is forgotten; the name can be given again.
        """
        self._send(operations.DELETE_DESTINATION, path={"name": name})

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
        return self._send(
            operations.ROTATE_DESTINATION_SECRET,
            path={"name": name},
            body={"overlap_seconds": overlap_seconds},
            key=idempotency_key,
        )

    def disable(self, name: str, *, reason: str | UnsetType = UNSET) -> Destination:
        """Let jobs for it fail until it is enabled again.

        A receiver that answers 410 disables its destination in the same way.
        """
        return self._send(
            operations.DISABLE_DESTINATION, path={"name": name}, body={"reason": reason}
        )

    def enable(self, name: str) -> Destination:
        """Let deliveries go on.

        Jobs that failed meanwhile are in the dead letters: redrive them there.
        """
        return self._send(operations.ENABLE_DESTINATION, path={"name": name})

    def test(self, name: str) -> DestinationTrial:
        """Deliver one small event now and say what came of it.

        No job is made and nothing is retried; the answer has status, duration and response.
        """
        return self._send(operations.TEST_DESTINATION, path={"name": name})

    def get_signing_secret(self) -> SigningSecret:
        """Show the secret that signs jobs with a bare URL.

        Receivers verify with it the webhooks of jobs that name no destination.
        """
        return self._send(operations.GET_SIGNING_SECRET)

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
        return self._send(
            operations.ROTATE_SIGNING_SECRET,
            body={"overlap_seconds": overlap_seconds},
            key=idempotency_key,
        )
