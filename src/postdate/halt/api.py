"""Halts: the kill switch and the freeze window of a tenant."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.halt.change import FreezeWindow
from postdate.halt.spec import Halt, Mode, Note
from postdate.halt.view import HaltView, view
from postdate.http.endpoint import Body, Call
from postdate.http.routes import Routes
from postdate.payment.spec.payment import Instant

ROUTES: Final = Routes("halts")


class KillBody(Body, kw_only=True):
    """Why everything stops."""

    note: Note


class FreezeBody(Body, kw_only=True, rename={"from_at": "from"}):
    """A window of time, and what it does to work."""

    until: Annotated[Instant, Meta(description="When it ends.")]
    from_at: Annotated[Instant | None, Meta(description="When it begins; now, if absent.")] = None
    mode: Annotated[
        Mode,
        Meta(
            description="`hold`: due work waits until the end. `drain`: new work is refused, "
            "due work still runs."
        ),
    ] = "hold"
    note: Note


class HaltList(msgspec.Struct, frozen=True):
    """The halts in force or to come."""

    halts: list[HaltView]


def _list(halts: list[Halt]) -> HaltList:
    return HaltList([view(halt) for halt in halts])


@ROUTES.add("GET", "/halts", "any", limited="served")
async def list_halts(call: Call[Services, Any, None]) -> HaltList:
    """Show whether the tenant is halted, why, and until when.

    An empty list means that the tenant is not halted and no window is planned.
    """
    return HaltList(await call.services.halt.read.page(call.actor.tenant_id))


@ROUTES.add("PUT", "/kill-switch", Scope.ADMIN, halted="served")
async def kill_tenant(call: Call[Services, KillBody, None]) -> HaltList:
    """Turn on the kill switch: stop everything of the tenant.

    Once this is answered, no payment of the tenant settles, nothing of it starts, and every change
    is refused; reading goes on, and what runs may report.
    """
    actor = call.actor
    return _list(
        await call.services.halt.change.kill(actor.tenant_id, call.body.note, actor.key_id)
    )


@ROUTES.add("DELETE", "/kill-switch", Scope.ADMIN, halted="served")
async def release_tenant(call: Call[Services, None, None]) -> HaltList:
    """Turn off the kill switch: release the tenant.

    Work that came due meanwhile runs according to its policies.
    """
    actor = call.actor
    return _list(await call.services.halt.change.lift(actor.tenant_id, "kill", actor.key_id))


@ROUTES.add("PUT", "/freeze", Scope.ADMIN, halted="served")
async def freeze_tenant(call: Call[Services, FreezeBody, None]) -> HaltList:
    """Set a freeze window: hold due work, or refuse new work.

    Due work waits (`hold`), or runs while new work is refused (`drain`).
    """
    actor, body = call.actor, call.body
    window = FreezeWindow(from_at=body.from_at, until_at=body.until, mode=body.mode)
    done = await call.services.halt.change.freeze(actor.tenant_id, window, body.note, actor.key_id)
    return _list(done)


@ROUTES.add("DELETE", "/freeze", Scope.ADMIN, halted="served")
async def thaw_tenant(call: Call[Services, None, None]) -> HaltList:
    """End the freeze window now.

    Work that was held back runs now.
    """
    actor = call.actor
    return _list(await call.services.halt.change.lift(actor.tenant_id, "freeze", actor.key_id))
