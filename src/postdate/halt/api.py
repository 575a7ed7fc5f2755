"""Halts: the kill switch and the freeze window of a tenant.

By hand but for the list: a switch has no key, answers with all halts, and waits after its commit.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from postdate.api.services import Services
from postdate.core.field import Instant
from postdate.core.identity import Scope
from postdate.core.shape import Spec
from postdate.halt.change import FreezeWindow
from postdate.halt.spec import Halt, HaltNote, Mode
from postdate.halt.view import HALT, HaltViews, view
from postdate.http.endpoint import Call
from postdate.resource.endpoints import ServedClass, serve

ROUTES: Final = serve("halts", ServedClass(HaltViews, lambda services: services.halt.read))


class KillBody(Spec, kw_only=True):
    """Why everything stops."""

    note: HaltNote


class FreezeBody(Spec, kw_only=True, rename={"from_at": "from"}):
    """A window of time, and what it does to work."""

    until: Annotated[Instant, Meta(description="When it ends.", examples=["2031-01-02T00:00:00Z"])]
    from_at: Annotated[
        Instant | None,
        Meta(description="When it begins; now, if absent.", examples=["2031-01-01T00:00:00Z"]),
    ] = None
    mode: Annotated[
        Mode,
        Meta(
            description="`hold`: due work waits until the end. `drain`: new work is refused, "
            "due work still runs.",
            examples=["hold"],
        ),
    ] = "hold"
    note: HaltNote


def _list(halts: list[Halt]) -> msgspec.Struct:
    return HALT.page([view(halt) for halt in halts])


@ROUTES.add("PUT", "/kill-switch", Scope.ADMIN, returns=HALT.page, halted="served")
async def kill_tenant(call: Call[Services, KillBody, None]) -> msgspec.Struct:
    """Turn on the kill switch: stop everything of the tenant.

    Once this is answered, no payment of the tenant settles, nothing of it starts, and every change
    is refused; reading goes on, and what runs may report.
    """
    actor = call.actor
    return _list(
        await call.services.halt.change.kill(actor.tenant_id, call.body.note, actor.key_id)
    )


@ROUTES.add("DELETE", "/kill-switch", Scope.ADMIN, returns=HALT.page, halted="served")
async def release_tenant(call: Call[Services, None, None]) -> msgspec.Struct:
    """Turn off the kill switch: release the tenant.

    Work that came due meanwhile runs according to its policies.
    """
    actor = call.actor
    return _list(await call.services.halt.change.lift(actor.tenant_id, "kill", actor.key_id))


@ROUTES.add("PUT", "/freeze", Scope.ADMIN, returns=HALT.page, halted="served")
async def freeze_tenant(call: Call[Services, FreezeBody, None]) -> msgspec.Struct:
    """Set a freeze window: hold due work, or refuse new work.

    Due work waits (`hold`), or runs while new work is refused (`drain`).
    """
    actor, body = call.actor, call.body
    window = FreezeWindow(from_at=body.from_at, until_at=body.until, mode=body.mode)
    done = await call.services.halt.change.freeze(actor.tenant_id, window, body.note, actor.key_id)
    return _list(done)


@ROUTES.add("DELETE", "/freeze", Scope.ADMIN, returns=HALT.page, halted="served")
async def thaw_tenant(call: Call[Services, None, None]) -> msgspec.Struct:
    """End the freeze window now.

    Work that was held back runs now.
    """
    actor = call.actor
    return _list(await call.services.halt.change.lift(actor.tenant_id, "freeze", actor.key_id))
