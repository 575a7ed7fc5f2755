"""`postdate tenant`: create, list, stop and release tenants."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated

import cyclopts
from cyclopts import Parameter

from postdate.audit.spec import CLI
from postdate.cli.command_table import HELP
from postdate.cli.database import MAX_ROWS, read_database, tenant_number, with_database
from postdate.cli.output import show
from postdate.database.connection.database import Database
from postdate.halt import store as halt_store
from postdate.halt.change import FreezeWindow, Halting
from postdate.halt.spec import Halt, Halts, Mode
from postdate.tenant.change.client_role import SCOPES, ClientRoles
from postdate.tenant.change.tenant import TenantMode, Tenants
from postdate.tenant.store import client_role as role_store
from postdate.tenant.store import tenant as tenant_store
from postdate.words.error import Code, refuse

tenant_app = cyclopts.App(name="tenant", help=HELP["tenant"])
Test = Annotated[
    bool, Parameter(help="In test mode: the clock stands still until `postdate clock advance`.")
]
ClockAt = Annotated[
    datetime | None,
    Parameter(help="The initial time of a test clock, UTC without a zone; now by default."),
]
ReasonOption = Annotated[
    str,
    Parameter(
        name=["--reason", "--note"], help="The reason; shown to the tenant and in the audit."
    ),
]


@tenant_app.command(name="create")
def tenant_create(name: str, *, test: Test = False, clock_at: ClockAt = None) -> None:
    """Create a tenant."""
    mode = TenantMode(test=test, clock_at=clock_at and _utc(clock_at))
    tenant_id = with_database(lambda database: Tenants(database).create(name, mode=mode))
    show({"tenant_id": tenant_id, "name": name, "test": test})


@tenant_app.command(name="list")
def tenant_list() -> None:
    """List the tenants."""
    show(read_database(lambda connection: tenant_store.page(connection, "", MAX_ROWS)))


def _halt(name: str, act: Callable[[Halting, int], Awaitable[list[Halt]]]) -> None:
    async def run(database: Database) -> list[Halt]:
        return await act(Halting(database, Halts()), await tenant_number(database, name))

    show(with_database(run))


@tenant_app.command(name="kill")
def tenant_kill(name: str, *, reason: ReasonOption) -> None:
    """Turn on a tenant's kill switch: stop everything until `release`."""
    if not reason.strip():
        raise refuse(Code.INVALID_FIELD, "Give a reason.", "reason")
    _halt(name, lambda halting, found: halting.kill(found, reason, CLI))


@tenant_app.command(name="release")
def tenant_release(name: str) -> None:
    """Turn off a tenant's kill switch."""
    _halt(name, lambda halting, found: halting.lift(found, "kill", CLI))


@tenant_app.command(name="disable")
def tenant_disable(name: str, *, reason: ReasonOption) -> None:
    """Disable a tenant: stop it and refuse its keys; its data stays as it is."""
    with_database(lambda db: Halting(db, Halts()).disable(name, reason, CLI))
    show({"tenant": name, "disabled": True})


@tenant_app.command(name="enable")
def tenant_enable(name: str) -> None:
    """Enable a disabled tenant."""
    with_database(lambda db: Halting(db, Halts()).enable(name, CLI))
    show({"tenant": name, "disabled": False})


@tenant_app.command(name="freeze")
def tenant_freeze(
    name: str,
    *,
    until: datetime,
    from_: Annotated[datetime | None, Parameter(name="--from")] = None,
    mode: Mode = "hold",
    reason: ReasonOption,
) -> None:
    """Set a freeze window: hold due work, or (drain) refuse new work; UTC without a zone."""
    window = FreezeWindow(from_at=_utc(from_) if from_ else None, until_at=_utc(until), mode=mode)
    _halt(name, lambda halting, found: halting.freeze(found, window, reason, CLI))


@tenant_app.command(name="thaw")
def tenant_thaw(name: str) -> None:
    """End a tenant's freeze window now."""
    _halt(name, lambda halting, found: halting.lift(found, "freeze", CLI))


@tenant_app.command(name="halts")
def tenant_halts() -> None:
    """List the tenants that are halted, or will be."""
    show(read_database(halt_store.load))


@tenant_app.command(name="bind-role")
def tenant_bind_role(
    role: str,
    *,
    tenant: str,
    scope: Annotated[
        tuple[str, ...], Parameter(help="jobs:write, payments:write or both.")
    ] = SCOPES,
    account: Annotated[
        tuple[str, ...], Parameter(help="Only these accounts may pay; may be repeated.")
    ] = (),
    max_amount: int | None = None,
) -> None:
    """Let a login role of this PostgreSQL use enqueue, schedule_payment and cancel for a tenant."""
    accounts = list(account) or None
    left = with_database(
        lambda database: ClientRoles(database).bind(role, tenant, scope, accounts, max_amount)
    )
    show({"role": role, "tenant": tenant, "still_to_run": left})


@tenant_app.command(name="unbind-role")
def tenant_unbind_role(role: str) -> None:
    """Unbind a login role from its tenant."""
    with_database(lambda database: ClientRoles(database).unbind(role))
    show({"role": role, "tenant": None})


@tenant_app.command(name="roles")
def tenant_roles() -> None:
    """List the login roles that speak for tenants."""
    show(read_database(lambda connection: role_store.page(connection, MAX_ROWS)))


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at
