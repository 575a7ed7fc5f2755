"""A tenant in test mode, and its clock."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from conftest import INTERNAL_TOKEN, Answered, Api

START = datetime(2027, 1, 1, tzinfo=UTC)


@dataclass
class Bench:
    """A tenant in test mode, seen by its admin."""

    api: Api
    key: str
    tenant: str

    async def call(self, method: str, path: str, body: Any = None, **given: Any) -> Answered:
        return await self.api.call(method, path, body, key=self.key, **given)

    async def make(self, path: str, body: Any) -> Any:
        answer = await self.call("POST", path, body, headers={"Idempotency-Key": uuid4().hex})
        assert answer.status in {200, 201}, answer.body
        return answer.body

    async def advance(self, by: str) -> list[dict[str, Any]]:
        """Advance, and give all that happened."""
        answer = await self.call("POST", "/test-clock/advance", {"by": by})
        assert answer.status == 200, answer.body
        while not answer.body["finished"]:
            answer = await self.call("POST", "/test-clock/advance", {})
            assert answer.status == 200, answer.body
        number = answer.body["advance"]
        path = f"/test-clock/entries?limit=100&advance={number}"
        answer = await self.call("GET", path)
        found: list[dict[str, Any]] = answer.body["entries"]
        cursor = answer.body["next_cursor"]
        while cursor:
            page = (await self.call("GET", f"/test-clock/entries?limit=100&cursor={cursor}")).body
            found, cursor = found + page["entries"], page["next_cursor"]
        return found

    async def now(self) -> datetime:
        return instant((await self.call("GET", "/test-clock")).body["at"])

    async def accounts(self, **balances: int) -> None:
        for name, balance in balances.items():
            await self.make("/accounts", {"account_id": name})
            if balance:
                await self.make(f"/accounts/{name}/adjustments", {"amount": balance, "reason": "x"})

    async def balance(self, name: str) -> int:
        balance: int = (await self.call("GET", f"/accounts/{name}")).body["balance"]
        return balance


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def told(entries: list[dict[str, Any]], *types: str) -> list[tuple[str, str]]:
    """When something of these types happened, since the start."""
    return [
        (str(instant(e["at"]) - START), e["type"])
        for e in entries
        if not types or e["type"] in types
    ]


async def new_bench(api: Api, **more: Any) -> Bench:
    name = f"test-{uuid4().hex[:12]}"
    body = {"name": name, "test": True, "clock_at": START.isoformat(), **more}
    answer = await api.call(
        "POST", "/internal/tenants", body, headers={"X-Internal-Auth": INTERNAL_TOKEN}
    )
    assert answer.status == 201, answer.body
    return Bench(api, answer.body["key"], name)
