"""Reads on a replica: they say so, know what their client has seen, and outlive the primary."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from conftest import Api, eventually
from postdate.api.health import Degraded
from postdate.database.connection.freshness import WAIT_SECONDS
from postdate.node import http as edge
from postdate.node.database_address import external
from postdate.node.settings import ProcessSettings
from postdate.tenant.change.tenant import Tenants
from support.api_ledger import open_ledger
from support.embedded_server import query
from support.replica import Pair, api_over, opened, over_tcp, pair

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' LIMIT 1"
JOB = {"destination": {"type": "worker"}, "delay_seconds": 600}


@pytest.fixture(scope="module")
async def both() -> AsyncIterator[Pair]:
    async with pair() as found:
        yield found


@pytest.fixture(scope="module")
async def reading(both: Pair) -> AsyncIterator[Api]:
    """The API of a node whose reads go to the standby."""
    async with opened(both.app, both.standby(both.app)) as database, api_over(database) as api:
        await both.caught_up()
        yield api


async def test_a_client_reads_its_own_writes_though_the_replica_lags(
    both: Pair, reading: Api
) -> None:
    ledger = await open_ledger(reading)
    await both.caught_up()
    await both.pause()
    try:
        made = await reading.call("POST", "/jobs", JOB)
        paid = await ledger.order()
        assert (made.status, paid.status) == (201, 201)
        token = paid.headers["Postdate-Freshness"]
        for path in (f"/jobs/{made.body['job_id']}", f"/payments/{paid.body['payment_id']}"):
            old = await reading.call("GET", path)
            assert (old.status, old.headers.get("Postdate-Stale")) == (404, "possible")
            headers = {"Postdate-Freshness": token}
            fresh = await reading.call("GET", path, headers=headers)
            assert fresh.status == 200, path
            assert "Postdate-Stale" not in fresh.headers
        # What changes something reads what is: it finds the job, and tells how it stands.
        cancelled = await reading.call("POST", f"/jobs/{made.body['job_id']}/cancel")
        assert cancelled.status == 200
    finally:
        await both.resume()
    await both.caught_up()
    seen = await reading.call("GET", path, headers={"Postdate-Freshness": token})
    assert (seen.status, seen.headers["Postdate-Stale"]) == (200, "possible")


async def test_nobody_waits_for_what_a_replica_cannot_reach(reading: Api) -> None:
    made = await reading.call("POST", "/jobs", JOB)
    began = time.monotonic()
    headers = {"Postdate-Freshness": "f" * 15}
    found = await reading.call("GET", f"/jobs/{made.body['job_id']}", headers=headers)
    assert (found.status, found.headers.get("Postdate-Stale")) == (200, None)
    assert time.monotonic() - began < WAIT_SECONDS


async def test_reads_and_keys_go_on_while_the_primary_is_away(both: Pair, reading: Api) -> None:
    made = await reading.call("POST", "/jobs", JOB)
    unused = (await Tenants(reading.node.database).issue("reader", ["jobs:read"])).key
    await both.caught_up()
    await both.primary.stop()
    try:
        path = f"/jobs/{made.body['job_id']}"
        # Nobody has looked this key up before.
        found = await reading.call("GET", path, key=unused)
        assert (found.status, found.headers["Postdate-Stale"]) == (200, "possible")
        listed = await reading.call("GET", "/jobs?status=PENDING")
        assert listed.status == 200
        assert made.body["job_id"] in [each["job_id"] for each in listed.body["jobs"]]
        assert (await reading.call("GET", path, key="pdk_wrong")).status == 401
        assert (await reading.call("POST", "/jobs", JOB)).status == 503
        told = {each.name: each for each in await edge.not_ready(reading.node)}
        assert isinstance(told["database"], Degraded)
    finally:
        await both.primary.start()

    async def accepted() -> bool:
        return (await reading.call("POST", "/jobs", JOB)).status == 201

    await eventually(accepted)


async def test_while_the_replica_is_away_the_primary_is_read(both: Pair) -> None:
    nowhere = both.standby(both.app).replace(str(both.standby_socket)[1:].replace("/", "%2F"), "x")
    assert nowhere != both.standby(both.app)
    async with opened(both.app, nowhere) as database, database.read(1) as connection:
        assert not await connection.fetchval("SELECT pg_is_in_recovery()")


async def test_of_several_hosts_a_standby_is_read(both: Pair) -> None:
    parts = urlsplit(both.app)
    login, primary_socket = parts.netloc.rpartition("@")[0], parse_qs(parts.query)["host"][0]
    hosts = f"host={primary_socket},{both.standby_socket}"
    address = f"postgresql://{login}@/postdate?{hosts}&target_session_attrs=prefer-standby"
    async with opened(both.app, address) as database:
        assert database.spares.replica is not None
        assert await database.spares.replica.fetchval("SELECT pg_is_in_recovery()")


@pytest.mark.parametrize("form", ["one", "several", "several, wish", "sockets", "sockets, wish"])
async def test_every_form_of_address_in_the_docs_starts_reads_and_writes(
    both: Pair, form: str
) -> None:
    parts = urlsplit(both.app)
    login = parts.netloc.rpartition("@")[0]
    primary_socket = Path(parse_qs(parts.query)["host"][0])
    hosts = f"{both.standby_socket},{primary_socket}"
    async with over_tcp(primary_socket) as first, over_tcp(both.standby_socket) as second:
        several = f"postgresql://{login}@127.0.0.1:{second},127.0.0.1:{first}/postdate"
        address = {
            "one": f"postgresql://{login}@127.0.0.1:{first}/postdate",
            "several": several,
            "several, wish": f"{several}?target_session_attrs=read-write",
            "sockets": f"postgresql://{login}@/postdate?host={hosts}",
            "sockets, wish": f"postgresql://{login}@/postdate?host={hosts}"
            "&target_session_attrs=read-write",
        }[form]
        found = external(ProcessSettings(database_url=address))
        assert found is not None
        async with opened(found.app, found.read) as database:
            async with database.write() as connection:
                assert not await connection.fetchval("SELECT pg_is_in_recovery()")
            async with database.read(1) as connection:
                assert not await connection.fetchval("SELECT pg_is_in_recovery()")


async def test_with_several_hosts_a_standby_serves_while_there_is_no_primary(both: Pair) -> None:
    parts = urlsplit(both.app)
    login = parts.netloc.rpartition("@")[0]
    primary_socket = parse_qs(parts.query)["host"][0]
    address = f"postgresql://{login}@/postdate?host={primary_socket},{both.standby_socket}"
    async with opened(address) as database:
        async with database.look_up() as connection:
            assert not await connection.fetchval("SELECT pg_is_in_recovery()")
        await both.primary.stop()
        try:
            async with database.read(1) as connection, database.look_up() as other:
                assert await connection.fetchval("SELECT pg_is_in_recovery()")
                assert await other.fetchval("SELECT pg_is_in_recovery()")
        finally:
            await both.primary.start()


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


@pytest.fixture
async def waiting(both: Pair) -> AsyncIterator[WaitingServer]:
    superuser = both.primary.credentials.superuser_dsn("postdate")
    await query(superuser, "ALTER DATABASE postdate SET synchronous_commit = 'on'")
    async with opened(both.app) as database:
        await Tenants(database).create("waiting")
        async with api_over(database, "waiting") as api:
            yield WaitingServer(superuser, api)
    await query(superuser, "ALTER DATABASE postdate RESET synchronous_commit")


async def test_what_only_the_primary_has_is_unknown_however_often_it_is_asked_for(
    waiting: WaitingServer,
) -> None:
    """A commit whose wait was cut off is visible, and may be lost all the same."""
    ledger = await open_ledger(waiting.api)
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
