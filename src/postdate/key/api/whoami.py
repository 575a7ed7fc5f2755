"""Say who a key belongs to and what it may do."""

from typing import Any, Final

import msgspec

from postdate.http.endpoint import Call
from postdate.http.routes import Routes
from postdate.key.spec import KeyAccounts, KeyMaxAmount, Scopes

ROUTES: Final = Routes("keys")


class WhoAmI(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant and key behind this request; null means no limit."""

    tenant: str
    key_id: str
    scopes: Scopes
    accounts: KeyAccounts
    max_amount: KeyMaxAmount


@ROUTES.add("GET", "/whoami", "any", limited="served")
async def whoami(call: Call[Any, None, None]) -> WhoAmI:
    """Show the tenant and scopes of the key.

    The quickest way to see whether a key works, and what it may do.
    """
    actor = call.actor
    return WhoAmI(
        tenant=actor.tenant,
        key_id=actor.key_id,
        scopes=sorted(actor.scopes),
        accounts=None if actor.accounts is None else sorted(actor.accounts),
        max_amount=actor.max_amount,
    )
