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
        """List who changed what, from which address and with which key.

        Entries come from sealed events, so each is part of the hash chain.
        `limit`: Maximum number of items to return.
        `cursor`: `next_cursor` of the previous page.
        `subject`: Only about this key, lane, account, job or payment.
        """

    @pages(list_page, "entries")
    def list(
        self, *, subject: UUID | str | None = None, page_size: int = 100
    ) -> Iterator[AuditEntry]:
        """List who changed what, from which address and with which key, page by page until the end.

        Entries come from sealed events, so each is part of the hash chain.
        `subject`: Only about this key, lane, account, job or payment.
        """
