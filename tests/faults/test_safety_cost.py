"""What keys, limits, halts and quotas cost an accepted payment over HTTP, on and off in one run."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from conftest import Api
from postdate.account.change.account import Accounts
from postdate.account.change.adjustment import Adjustments
from postdate.account.spec import AccountSpec
from postdate.api.app import create_app
from postdate.api.endpoints import ENDPOINTS
from postdate.http.gate import Gate
from postdate.http.listener import bind
from postdate.http.login_throttle import LoginThrottle
from postdate.http.server import HttpServer
from postdate.http.shell import Shell
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate_lab.bench.loader import LoadOrder, load

REQUESTS = 3000
ROUNDS = 6
NAMES = [f"account-{number}" for number in range(50)]
COSTS_MOST = 0.15
"""Of accept throughput."""


@dataclass
class Figures:
    """What the rounds of one side took."""

    app: Shell
    cpu_seconds: float = 0.0
    rates: list[float] = field(default_factory=list)


@asynccontextmanager
async def served(app: Shell) -> AsyncIterator[str]:
    """Serve an app on a socket of its own, as `postdate serve` does."""
    server = HttpServer(app, bind("127.0.0.1", 0))
    running = asyncio.create_task(server.run())
    yield server.url
    server.stop()
    await running


@pytest.fixture
async def sides(api: Api) -> tuple[Figures, Figures]:
    """The edge without keys and limits, and the edge as it is with every limit set."""
    node = api.node
    for name in ("rate.key_per_second", "rate.tenant_per_second", "quota.pending_payments"):
        await api.call("PUT", f"/settings/{name}", {"value": 1_000_000})
    await node.refresh_settings()
    identities = Identities(node.database, LoginThrottle(free=10**9))
    who = await identities.authenticate(api.key)
    assert who is not None
    for name in NAMES:
        await Accounts(node.database).create(who, AccountSpec(account_id=name))
        await Adjustments(node.database).adjust(who, name, 10**9, "open", name)

    async def anybody(_: str) -> Any:
        return who

    async def ready() -> list[Any]:
        return []

    bare = create_app(
        endpoints=ENDPOINTS,
        services=edge.services(node, identities),
        gate=Gate(authenticate=anybody),
        readiness=ready,
        registry=type(node.registry)(),
    )
    # A registry of its own: two edges cannot count in one.
    node.registry = type(node.registry)()
    return Figures(bare), Figures(edge.build(node, identities))


@pytest.mark.soak
async def test_safety_costs_a_small_part_of_an_accepted_payment(
    api: Api, sides: tuple[Figures, Figures]
) -> None:
    for turn in range(ROUNDS + 1):
        for which, side in enumerate(sides):
            async with served(side.app) as url:
                order = LoadOrder(
                    url=url, key=api.key, kind="schedule", count=REQUESTS, accounts=NAMES,
                    prefix=f"{which}-{turn}",
                )  # fmt: skip
                began = time.process_time()
                report = await load(order)
            assert report.statuses == {201: REQUESTS}
            if turn:  # the first round only warms up
                side.cpu_seconds += time.process_time() - began
                side.rates.append(report.per_second)
    off, on = sides
    bare, safe = (1e6 * side.cpu_seconds / ROUNDS / REQUESTS for side in sides)
    cost = 1 - bare / safe
    print(
        f"an accepted payment takes {bare:.0f} us of processor bare, {safe:.0f} us with safety: "
        f"{cost:.1%} of throughput; seen {max(off.rates):.0f}/s and {max(on.rates):.0f}/s"
    )
    assert cost <= COSTS_MOST
