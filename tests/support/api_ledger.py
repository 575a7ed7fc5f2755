"""A ledger to test on: accounts with money, payments, and what the database holds of them."""

import itertools
from dataclasses import dataclass
from typing import Any

from conftest import Answered, Api
from postdate.tenant.store import tenant as tenant_store

_numbers = itertools.count(1)


def key(name: str = "") -> dict[str, str]:
    """Give the header with a key of its own, or with this one."""
    return {"Idempotency-Key": name or f"key-{next(_numbers)}"}


@dataclass
class Ledger:
    """A tenant with `alice` (1,000), `bob` and `carol` (nothing)."""

    api: Api
    tenant_id: int

    async def order(self, name: str = "", **changes: Any) -> Answered:
        """Schedule a payment of 100 from alice to bob in 60 s, or what is changed of that."""
        body = {"from_account_id": "alice", "to_account_id": "bob", "amount": 100}
        if "scheduled_time" not in changes:
            body["delay_seconds"] = 60
        wanted = {k: v for k, v in (body | changes).items() if v is not None}
        return await self.api.call("POST", "/payments/schedule", wanted, headers=key(name))

    async def account(self, account_id: str) -> dict[str, Any]:
        """Read an account."""
        answer = await self.api.call("GET", f"/accounts/{account_id}")
        assert answer.status == 200, answer
        body: dict[str, Any] = answer.body
        return body

    async def held(self, account_id: str = "alice") -> int:
        """Say how much an account holds."""
        return int((await self.account(account_id))["held"])

    async def rows(self) -> dict[str, int]:
        """Count everything a payment writes, kept answers included."""
        counts = {}
        for table in ("payment", "timer", "event", "transfer", "idempotency"):
            counts[table] = await self.api.node.database.writer.fetchval(
                f"SELECT count(*) FROM {table} WHERE tenant_id = $1", self.tenant_id
            )
        return counts


async def open_ledger(api: Api) -> Ledger:
    """Create the accounts."""
    async with api.node.database.write() as connection:
        tenant_id = await tenant_store.find(connection, api.tenant)
    assert tenant_id is not None
    for account_id in ("alice", "bob", "carol"):
        answer = await api.call("POST", "/accounts", {"account_id": account_id})
        assert answer.status == 201, answer
    path = "/accounts/alice/adjustments"
    answer = await api.call("POST", path, {"amount": 1000, "reason": "opening"}, headers=key())
    assert answer.status == 201, answer
    return Ledger(api, tenant_id)
