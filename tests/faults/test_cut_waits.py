"""A commit whose wait for its standby was cut off: it is visible, and may be lost all the same."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from conftest import Api, eventually
from support.api_ledger import Ledger, open_ledger
from support.embedded_server import query
from support.replica import api_over, opened
from support.replica import pair as started_pair

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' LIMIT 1"


class WaitingServer:
    """A primary whose commits wait for a standby that is not there."""

    def __init__(self, superuser: str, api: Api) -> None:
        self.superuser = superuser
        self.api = api

    async def wait_for(self, standby: str) -> None:
        """Let commits wait for this standby; for none if it has no name."""
        await query(self.superuser, f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'")
        await query(self.superuser, "SELECT pg_reload_conf()")

        async def learned() -> bool:
            await self.api.node.refresh_settings()
            return self.api.node.database.replicated == bool(standby)

        await eventually(learned)

    async def cut_off(self) -> None:
        """Cancel the wait of the commit that waits next."""
        found: list[int] = []

        async def waits() -> bool:
            found[:] = [int(str(pid)) for pid in [await query(self.superuser, WAITING)] if pid]
            return bool(found)

        await eventually(waits)
        await query(self.superuser, f"SELECT pg_cancel_backend({found[0]})")


@pytest.fixture(scope="module")
async def waiting() -> AsyncIterator[WaitingServer]:
    async with started_pair() as both:
        superuser = both.primary.credentials.superuser_dsn("postdate")
        await query(superuser, "ALTER DATABASE postdate SET synchronous_commit = 'on'")
        async with opened(both.app) as database, api_over(database) as api:
            yield WaitingServer(superuser, api)


@pytest.fixture
async def ledger(waiting: WaitingServer) -> Ledger:
    return await open_ledger(waiting.api)


async def test_what_only_the_primary_has_is_unknown_however_often_it_is_asked_for(
    waiting: WaitingServer, ledger: Ledger
) -> None:
    await waiting.wait_for("nobody")
    try:
        for _ in range(2):
            asked = asyncio.create_task(ledger.order("once"))
            await waiting.cut_off()
            answer = await asked
            assert (answer.status, answer.body["code"]) == (503, "outcome_unknown")
        # It is there, for all to see, and yet was never acknowledged.
        listed = await waiting.api.call("GET", "/payments?account_id=alice")
        assert len(listed.body["payments"]) == 1
    finally:
        await waiting.wait_for("")
    answer = await ledger.order("once")
    assert (answer.status, answer.headers["idempotency-replayed"]) == (201, "true")
    cancel = f"/payments/{answer.body['payment_id']}/cancel"
    assert (await waiting.api.call("DELETE", cancel)).status == 200
    await waiting.wait_for("nobody")
    try:
        asked = asyncio.create_task(waiting.api.call("DELETE", cancel))
        await waiting.cut_off()
        assert (await asked).status == 503
    finally:
        await waiting.wait_for("")
