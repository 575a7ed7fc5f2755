"""`postdate audit`: who changed what, from which address and with which key."""

from uuid import UUID

from postdate.audit.view import AuditEntry, AuditViews
from postdate.cli.database import MAX_ROWS, tenant_number, with_database
from postdate.cli.noun import noun_app
from postdate.cli.output import show
from postdate.database.connection.database import Database

audit_app = noun_app("audit")


@audit_app.default
def audit(*, tenant: str | None = None, after: int = 0, subject: UUID | None = None) -> None:
    """List the audit of a tenant, or of what the operator set for all tenants, in order.

    Parameters
    ----------
    tenant
        Whose; without it, what was set for all tenants.
    after
        Only those after this sequence number.
    subject
        Only about this key, lane, account, job or payment.

    """

    async def run(database: Database) -> list[AuditEntry]:
        tenant_id = await tenant_number(database, tenant) if tenant else 0
        views = AuditViews(database)
        found: list[AuditEntry] = []
        position, more = after, True
        while more and len(found) < MAX_ROWS:
            page = await views.page(tenant_id, after=position, limit=MAX_ROWS, subject=subject)
            found += page.entries
            position, more = page.position, page.more
        return found

    show(with_database(run))
