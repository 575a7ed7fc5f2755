"""The life of a run: operations drawn from a seed, without knowledge of what they meet."""

import random
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

TENANTS: Final = ("amber", "birch", "cedar")
"""The tenants; only the last is ever halted, so that the others show what a halt costs them."""

HALTED: Final = TENANTS[-1]
ACCOUNTS: Final = 6
APPROVAL_ABOVE: Final = 5000
LANES: Final = ("default", "narrow", "rated")
BEHAVIOURS: Final = (
    "obey", "obey", "obey", "slow", "fail", "refuse", "hang", "lie", "throttle", "redirect"
)  # fmt: skip
"""What a receiver does with a job; `obey` three times as often as the others."""

OVERLAPS: Final = ("allow", "skip", "buffer_one", "cancel_running")
MISFIRES: Final = ("fire_once", "fire_all", "skip")

_WEIGHTS: Final = {
    "payment.schedule": 30,
    "payment.cancel": 6,
    "payment.reschedule": 4,
    "payment.read": 5,
    "payment.repeat": 3,
    "approval.decide": 4,
    "account.adjust": 3,
    "job.create": 30,
    "job.batch": 2,
    "job.cancel": 4,
    "job.reschedule": 3,
    "job.run_now": 2,
    "job.read": 5,
    "schedule.create": 1,
    "schedule.change": 1,
    "halt.turn": 0.4,
}


class LifeOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation: `pick` chooses among what exists by then, `body` is what is sent."""

    n: int
    kind: str
    tenant: str
    pick: int
    body: Any = None
    word: str = ""


def canary(tenant: str) -> str:
    """Return the text that stands in everything of one tenant and in nothing of another."""
    return f"canary-of-{tenant}"


_CANARY: Final = re.compile(rb"canary-of-([a-z0-9]+)")


def foreign_canaries(data: bytes, tenant: str) -> tuple[str, ...]:
    """Return the canaries of other tenants that stand in something of this one."""
    found = {each.decode() for each in _CANARY.findall(data)} - {tenant}
    return tuple(sorted(map(canary, found)))


def operations(seed: int) -> Iterator[LifeOperation]:
    """Draw operations without end."""
    drawn = random.Random(f"life {seed}")
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    n = 0
    while True:
        n += 1
        [kind] = drawn.choices(kinds, weights)
        tenant = HALTED if kind == "halt.turn" else drawn.choice(TENANTS)
        body, word = _body(kind, tenant, n, drawn)
        yield LifeOperation(
            n=n, kind=kind, tenant=tenant, pick=drawn.randrange(2**31), body=body, word=word
        )


def _body(kind: str, tenant: str, n: int, drawn: random.Random) -> tuple[Any, str]:
    """Draw what is sent, and a word where the operation has several ways."""
    note = {"note": canary(tenant)}
    draw: dict[str, Callable[[], tuple[Any, str]]] = {
        "payment.schedule": lambda: (payment(tenant, n, drawn), ""),
        "payment.reschedule": lambda: ({"delay_seconds": drawn.randint(1, 6)}, ""),
        "job.reschedule": lambda: ({"delay_seconds": drawn.randint(1, 6)}, ""),
        "account.adjust": lambda: (
            {"amount": drawn.choice([500, 1000, -50]), "reason": canary(tenant)},
            "",
        ),
        "approval.decide": lambda: (note, drawn.choice(["approve", "approve", "refuse"])),
        "job.create": lambda: (job(tenant, n, drawn), ""),
        "job.batch": lambda: ({"jobs": [job(tenant, n, drawn, p) for p in range(1, 9)]}, ""),
        "schedule.create": lambda: (schedule(tenant, n, drawn), ""),
        "schedule.change": lambda: (None, drawn.choice(["pause", "resume", "trigger"])),
        "halt.turn": lambda: (note, drawn.choice(["kill-switch", "freeze"])),
    }
    return draw.get(kind, lambda: (None, ""))()


def payment(tenant: str, n: int, drawn: random.Random) -> dict[str, Any]:
    """Draw a payment; every eighth needs a second person."""
    payer, payee = drawn.sample(range(ACCOUNTS), 2)
    large = drawn.random() < 1 / 8
    made: dict[str, Any] = {
        "from_account_id": f"a{payer}",
        "to_account_id": f"a{payee}",
        "amount": APPROVAL_ABOVE + drawn.randint(1, 50) if large else drawn.randint(1, 400),
        "delay_seconds": drawn.randint(1, 5),
        "description": f"{canary(tenant)} {n}",
    }
    if drawn.random() < 1 / 3:
        made["funding"] = "at_execution"
    return made


def job(tenant: str, n: int, drawn: random.Random, part: int = 0) -> dict[str, Any]:
    """Draw a job; `behaviour` is a word of ours, which the client turns into a destination."""
    sort = drawn.choices(["webhook", "queue", "worker"], [6, 1, 2])[0]
    retry: dict[str, Any] = {
        "max_attempts": drawn.choice([3, 6, 12]),
        "backoff": drawn.choice(["exponential", "linear", "fixed"]),
        "initial_seconds": 0.2,
        "max_seconds": 1,
    }
    if drawn.random() < 1 / 4:
        retry["on_unknown"] = "hold"
    made: dict[str, Any] = {
        "behaviour": drawn.choice(BEHAVIOURS) if sort == "webhook" else sort,
        "lane": "pulled" if sort == "worker" else drawn.choice(LANES),
        "payload": {"canary": canary(tenant), "n": n, "part": part},
        "delay_seconds": drawn.choice([0, 0, 1, 2, 4]),
        "retry": retry,
        "timeout_seconds": 1.5,
    }
    if drawn.random() < 1 / 10:
        made["spread_seconds"] = 2
    return made


def schedule(tenant: str, n: int, drawn: random.Random) -> dict[str, Any]:
    """Draw a schedule with each of its policies, for jobs twice as often as for payments."""
    rule: dict[str, Any] = drawn.choice(
        [{"every_seconds": 1}, {"every_seconds": 2}, {"cron": "*/2 * * * * *"}]
    )
    if drawn.random() < 1 / 3:
        payer, payee = drawn.sample(range(ACCOUNTS), 2)
        template: dict[str, Any] = {
            "payment": {
                "from_account_id": f"a{payer}",
                "to_account_id": f"a{payee}",
                "amount": 1,
                "description": canary(tenant),
            }
        }
    else:
        behaviour = drawn.choice(["obey", "slow"])
        body = {"canary": canary(tenant), "n": n}
        template = {"job": {"behaviour": behaviour, "payload": body}}
    return {
        **rule,
        "name": f"{canary(tenant)}-{n}",
        "template": template,
        "misfire": {"policy": drawn.choice(MISFIRES), "late_after_seconds": 2},
        "overlap": drawn.choice(OVERLAPS),
    }
