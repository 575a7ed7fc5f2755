"""Work off the bulk actions of a test's database, as the nodes of a cluster do."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from conftest import Api
from postdate.core.identity import Identity, Scope
from postdate.node import bulk_action

MAX_STEPS = 200


async def work_off(api: Api) -> int:
    """Do pieces until none is due; return how many it took."""
    worker = bulk_action.worker(api.node)
    for steps in range(MAX_STEPS):
        if not await worker.run_once(1):
            return steps
    raise AssertionError("the bulk actions do not come to an end")


async def confirmed_bulk_action(
    api: Api, operation: Any, items: Mapping[str, str], terms: Mapping[str, Any] | None = None
) -> str:
    """Begin a bulk action as the console does, with an admin key."""
    me = (await api.call("GET", "/whoami")).body
    async with api.node.database.write() as connection:
        tenant_id = await connection.fetchval(
            "SELECT tenant_id FROM tenant WHERE name = $1", api.tenant
        )
    admin = frozenset({Scope.ADMIN})
    actor = Identity(tenant_id=tenant_id, tenant=api.tenant, key_id=me["key_id"], scopes=admin)
    given = {UUID(one): seen for one, seen in items.items()}
    actions = bulk_action.changes(api.node)
    return str(await actions.begin(actor, operation, terms or {}, given))
