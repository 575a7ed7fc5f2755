"""Calls about audit. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Iterator
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
from postdate.client.models.audit import AuditEntry, AuditList


class Audit(Group[K]):
    """What the API offers about audit."""

    @call("list_audit", "GET", "/audit")
    def list_page(
        self,
        *,
        limit: int | UnsetType = UNSET,
        cursor: str | None = None,
        subject: UUID | str | None = None,
    ) -> AuditList:
        """Read who did what to which thing, from where, by which key.

        Taken from the sealed events, so that each entry is part of the hash chain.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        `subject`: Only about this key, lane, account, job or payment.
        """

    @pages(list_page, "entries")
    def list(
        self, *, subject: UUID | str | None = None, page_size: int = 100
    ) -> Iterator[AuditEntry]:
        """Read who did what to which thing, from where, by which key, page by page until the end.

        Taken from the sealed events, so that each entry is part of the hash chain.
        `subject`: Only about this key, lane, account, job or payment.
        """
