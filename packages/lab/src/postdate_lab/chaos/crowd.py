"""The crowd: tenants that send payments and jobs in batches of up to a thousand, then leave.

Each has a bounded part of the run, so that a run of millions is checked in bounded memory.
"""

import random
from collections.abc import Iterator
from math import ceil
from typing import Any, Final, Literal

import msgspec

from postdate_lab.chaos.life import canary

ITEMS: Final = 20_000
"""Payments of one tenant of the crowd, and as many jobs."""

ACCOUNTS: Final = 24
HOT_ACCOUNT: Final = "a0"
BATCH: Final = (500, 1000)
"""The smallest and the largest batch."""

AGAIN_SHARE: Final = 1 / 15
"""Batches that are sent once more with the same keys."""

PULLED: Final = "pulled"
_DESTINATIONS: Final = {"queue": 78, "obey": 15, "slow": 1, PULLED: 6}
"""How many of a hundred jobs go where. None fails at first: so many of them open a breaker, which
spares their receiver for longer than the run may take to calm down."""

_LANES: Final = ("bulk-0", "bulk-1", "bulk-2")


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """One batch of a tenant."""

    n: int
    noun: Literal["payment", "job"]
    items: list[dict[str, Any]]
    is_repeated: bool


def tenants(bulk: float, seconds: float) -> list[str]:
    """Name as many tenants as a run needs."""
    return [f"crowd{n:03}" for n in range(ceil(bulk * seconds / ITEMS))]


def batches(seed: int, tenant: str) -> Iterator[Batch]:
    """Draw everything one tenant sends: payments and jobs by turns."""
    drawn = random.Random(f"crowd {seed} {tenant}")
    left = {"payment": ITEMS, "job": ITEMS}
    n = 0
    while any(left.values()):
        for noun in ("payment", "job"):
            size = min(left[noun], drawn.randint(*BATCH))
            if not size:
                continue
            n += 1
            left[noun] -= size
            draw = _payment if noun == "payment" else _job
            items = [draw(tenant, n, part, drawn) for part in range(size)]
            again = drawn.random() < AGAIN_SHARE
            yield Batch(n=n, noun=noun, items=items, is_repeated=again)


def keys(batch: Batch) -> str:
    """Return how the key of each item begins; its place in the batch follows."""
    return f"{batch.noun}-{batch.n}-"


def _payment(tenant: str, n: int, part: int, drawn: random.Random) -> dict[str, Any]:
    payer, payee = drawn.sample(range(ACCOUNTS), 2)
    to_hot = payer > 0 and drawn.random() < 1 / 5
    made: dict[str, Any] = {
        "from_account_id": f"a{payer}",
        "to_account_id": HOT_ACCOUNT if to_hot else f"a{payee}",
        "amount": drawn.randint(1, 300),
        "delay_seconds": drawn.randint(1, 8),
        "description": canary(tenant),
        "idempotency_key": f"payment-{n}-{part}",
    }
    if drawn.random() < 1 / 4:
        made["funding"] = "at_execution"
    return made


def _job(tenant: str, n: int, part: int, drawn: random.Random) -> dict[str, Any]:
    """Draw a job; `behaviour` is a word of ours, as for the jobs of the others."""
    [behaviour] = drawn.choices(list(_DESTINATIONS), list(_DESTINATIONS.values()))
    retry: dict[str, Any] = {"max_attempts": 12, "initial_seconds": 0.2, "max_seconds": 2}
    if drawn.random() < 1 / 20:
        retry["on_unknown"] = "hold"
    return {
        "behaviour": "worker" if behaviour == PULLED else behaviour,
        "lane": PULLED if behaviour == PULLED else drawn.choice(_LANES),
        "payload": {"canary": canary(tenant), "n": n, "part": part},
        "delay_seconds": drawn.choice([0, 0, 1, 2, 4, 8]),
        "retry": retry,
        "timeout_seconds": 10,
        "idempotency_key": f"job-{n}-{part}",
    }
