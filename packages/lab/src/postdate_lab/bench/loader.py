"""A load in a process of its own: reads what to send from standard input, prints its report."""

import asyncio
import itertools
import random
import sys
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
import uvloop

from postdate_lab.bench.load import CONNECTIONS, Load, LoadReport, LoadRequest

BATCH: Final = 1000
BASE: Final = "/api/v1/payments"


class LoadOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What to send where. Of the accounts the first is the hot one: every second payment's payee.

    `count` is of payments or of questions, `per_second` of requests; idempotency keys begin with
    `prefix`.
    """

    url: str
    key: str
    kind: Literal["schedule", "batch", "status"]
    count: int
    accounts: list[str] = []
    payment_ids: list[str] = []
    delay_seconds: tuple[int, int] = (3600, 7200)
    per_second: float | None = None
    connections: int = CONNECTIONS
    prefix: str = "k"


def requests(order: LoadOrder) -> Iterator[LoadRequest]:
    """Make the requests of an order."""
    match order.kind:
        case "schedule":
            for number, body in enumerate(_payments(order)):
                headers = {"idempotency-key": f"{order.prefix}-{number}"}
                yield LoadRequest("POST", f"{BASE}/schedule", msgspec.json.encode(body), headers)
        case "batch":
            keyed = (
                {**p, "idempotency_key": f"{order.prefix}-{n}"}
                for n, p in enumerate(_payments(order))
            )
            while many := list(itertools.islice(keyed, BATCH)):
                yield LoadRequest("POST", f"{BASE}/batch", msgspec.json.encode({"payments": many}))
        case "status":
            for _ in range(order.count):
                yield LoadRequest("GET", f"{BASE}/{random.choice(order.payment_ids)}")


def _payments(order: LoadOrder) -> Iterator[dict[str, Any]]:
    hot, *others = order.accounts
    for number in range(order.count):
        payer, other = random.sample(others, 2)
        yield {
            "from_account_id": payer,
            "to_account_id": hot if number % 2 else other,
            "amount": 1,
            "delay_seconds": random.randint(*order.delay_seconds),
        }


async def load(order: LoadOrder) -> LoadReport:
    """Send an order from another process and wait for its report."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "postdate_lab.bench.loader",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    answer, _ = await process.communicate(msgspec.json.encode(order))
    if process.returncode:
        raise RuntimeError(f"the load ended with {process.returncode}")
    return msgspec.json.decode(answer, type=LoadReport)


async def _send(order: LoadOrder) -> LoadReport:
    # Made beforehand, so that making them takes no time from the server.
    ready = list(requests(order))
    return await Load(ready, order.per_second).run(order.url, order.key, order.connections)


if __name__ == "__main__":
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=LoadOrder)
    sys.stdout.buffer.write(msgspec.json.encode(uvloop.run(_send(wanted))))
