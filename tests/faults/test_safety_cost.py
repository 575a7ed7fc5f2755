"""What keys, limits on requests, halts and quotas cost an accepted job, on and off in one run."""

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import structlog

from conftest import Api
from postdate.api.app import create_app
from postdate.api.shell import Shell
from postdate.cli import edge
from postdate.model.knock import Knocks
from postdate.views.identity import Identities

REQUESTS = 400
ROUNDS = 6
MOST = 1.25
"""Reading and writing HTTP, which both would share, is not in these figures."""
AT_ONCE = 40
BODY = msgspec.json.encode({"destination": {"type": "worker"}, "delay_seconds": 600})


async def post(app: Shell, key: str) -> int:
    """Call the app as the server does, without a socket in between."""
    said: list[Any] = []
    parts = iter([{"type": "http.request", "body": BODY, "more_body": False}])

    async def receive() -> Any:
        return next(parts)

    async def send(message: Any) -> None:
        said.append(message)

    headers = [(b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/v1/jobs",
        "raw_path": b"/api/v1/jobs",
        "query_string": b"",
        "headers": [*headers, (b"content-length", str(len(BODY)).encode())],
        "client": ("127.0.0.1", 1),
    }
    await app(scope, receive, send)
    return int(said[0]["status"])


async def cpu_seconds(app: Shell, key: str) -> float:
    """Give the processor time that this process spends on some requests."""
    left = iter(range(REQUESTS))

    async def client() -> list[int]:
        return [await post(app, key) for _ in left]

    began = time.process_time()
    answered = await asyncio.gather(*(client() for _ in range(AT_ONCE)))
    spent = time.process_time() - began
    assert {status for part in answered for status in part} == {201}
    return spent


@pytest.fixture
async def apps(api: Api) -> tuple[Shell, Shell]:
    """The edge without keys and limits, and the edge as it is with every limit set."""
    node = api.node
    for name in ("rate.key_per_second", "rate.tenant_per_second", "quota.pending_jobs"):
        await api.call("PUT", f"/settings/{name}", {"value": 1_000_000})
    await node.refresh_settings()
    identities = Identities(node.database, Knocks(free=10**9))
    who = await identities.authenticate(api.key)

    async def anybody(_: str) -> Any:
        return who

    async def ready() -> list[Any]:
        return []

    bare = create_app(
        endpoints=edge.ENDPOINTS,
        services=edge.services(node, identities),
        authenticate=anybody,
        readiness=ready,
        registry=type(node.registry)(),
        internal_token=None,
    )
    return bare, edge.build(_fresh(node), identities)


def _fresh(node: Any) -> Any:
    """The node with a registry of its own: two edges cannot count in one."""
    node.registry = type(node.registry)()
    return node


@pytest.fixture
def quiet() -> Iterator[None]:
    """Log as a server does: the tests' own log tells everything, and costs more than the rest."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.INFO))
    yield
    structlog.configure(**before)


@pytest.mark.soak
@pytest.mark.usefixtures("quiet")
async def test_safety_costs_a_small_part_of_an_accepted_job(
    api: Api, apps: tuple[Shell, Shell]
) -> None:
    spent = [0.0, 0.0]
    for turn in range(ROUNDS + 1):
        for which, app in enumerate(apps):
            seconds = await cpu_seconds(app, api.key)
            spent[which] += seconds if turn else 0.0  # the first round only warms up
    off, on = (seconds / ROUNDS / REQUESTS * 1e6 for seconds in spent)
    print(f"an accepted job costs {off:.0f} us of processor time bare, {on:.0f} us with safety")
    assert on <= MOST * off
