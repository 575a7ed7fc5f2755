"""Operations of audit. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.audit import AuditList
from postdate.client.operation import Operation

LIST_AUDIT: Final = Operation("list_audit", "GET", "/audit", AuditList)
