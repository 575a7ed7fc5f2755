"""Calls about audit. Written by `make docs` from the endpoints."""

from collections.abc import Iterator
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.audit import AuditEntry, AuditList
from postdate.client.operations import audit as operations


class Audit(Group):
    """What the API offers about audit."""

    def list(
        self, *, subject: UUID | str | None = None, page_size: int = 100
    ) -> Iterator[AuditEntry]:
        """Read who did what to which thing, from where, by which key, page by page until the end.

        Taken from the sealed events, so that each entry is part of the hash chain.
        `limit`: How many items to return at most.
        `cursor`: `next_cursor` of the page before.
        `subject`: Only about this key, lane, account, job or payment.
        """
        return self._pages(
            operations.LIST_AUDIT,
            lambda page: page.entries,
            query={"subject": subject, "limit": page_size},
        )

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
        return self._send(
            operations.LIST_AUDIT, query={"limit": limit, "cursor": cursor, "subject": subject}
        )
