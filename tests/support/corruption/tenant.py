"""A small tenant that has lived: something of everything that its books keep."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from conftest import Api, Clock
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.outcome import Delivery, Failed, Outcome
from postdate.node import schedule as wiring
from postdate.scheduler.expander import Expander
from postdate.tenant.change.tenant import Tenants
from postdate.tenant.store import tenant as tenant_store
from support.bank import drain, settler
from support.event import seal_all
from support.schedule import PULL
from support.schedule import drain as expand
from support.subscription import Subscriber, node

GONE_URL = "https://example.com/gone"


class Corruption(NamedTuple):
    """A statement, the finding that must name it, and the offender.

    Rounds name it alike, or as `in_rounds` says. What shares no id and no account with another is
    tried together with it, unless it must be `alone`.
    """

    statement: str
    finding: str
    offender: str
    in_rounds: tuple[str, str] | None = None
    alone: bool = False


def of_account(name: str) -> str:
    """Write the condition that picks an account of the tenant."""
    return f"tenant_id = {{t}} AND account_id = '{name}'"


@dataclass
class Lived:
    """The tenant, its API, and the ids of what it has, by name."""

    api: Api
    tenant_id: int
    ids: dict[str, str]

    @property
    def database(self) -> Database:
        return self.api.node.database

    async def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Call a route that must succeed and give its body."""
        headers = {"Idempotency-Key": str(uuid4())} if method == "POST" else {}
        answer = await self.api.call(method, path, body, headers=headers, **more)
        assert answer.status < 300, answer
        return answer.body

    async def pay(self, name: str, payer: str, payee: str, amount: int, **more: Any) -> str:
        """Schedule a payment and remember its id by a name."""
        order = {"from_account_id": payer, "to_account_id": payee, "amount": amount}
        wish = {"delay_seconds": 10} | order | more
        headers = {"Idempotency-Key": f"key-of-{name}"}
        answer = await self.api.call("POST", "/payments/schedule", wish, headers=headers)
        assert answer.status == 201, answer
        self.ids[name] = answer.body["payment_id"]
        return self.ids[name]

    async def job(self, name: str, **more: Any) -> str:
        """Accept a job for a worker and remember its id by a name."""
        wish = {
            "destination": {"type": "worker"},
            "lane": "mail",
            "delay_seconds": 30 * 86400,
        } | more
        answer = await self.api.call(
            "POST", "/jobs", wish, headers={"Idempotency-Key": f"key-of-{name}"}
        )
        assert answer.status == 201, answer
        body = answer.body
        self.ids[name] = body["job_id"]
        return self.ids[name]


async def live(edge: Api, clock: Clock) -> Lived:
    """Create the tenant and let it live for an hour or so of its own time."""
    name = f"lived-{uuid4().hex[:8]}"
    tenants = Tenants(edge.node.database)
    await tenants.create(name)
    key = (await tenants.issue(name, ["admin"])).key
    api = replace(edge, key=key, tenant=name)
    async with api.node.database.write() as connection:
        tenant_id = await tenant_store.find(connection, name)
    assert tenant_id is not None
    lived = Lived(api, tenant_id, {})
    await _accounts(lived)
    await seal_all(lived.database, 500)
    await _payments(lived, clock)
    await seal_all(lived.database, 500)
    await _jobs(lived)
    await _schedules(lived, clock)
    await _definitions(lived)
    await _subscriptions(lived)
    await seal_all(lived.database, 500)
    return lived


async def _accounts(lived: Lived) -> None:
    for account in ("alice", "bob", "carol", "dora", "eve", "zoe"):
        await lived.call("POST", "/accounts", {"account_id": account})
    await lived.call("POST", "/accounts", {"account_id": "fay", "currency": "EUR"})
    for account, amount in (("alice", 5000), ("bob", 700), ("eve", 90), ("alice", -50)):
        body = {"amount": amount, "reason": "opening"}
        await lived.call("POST", f"/accounts/{account}/adjustments", body)
    await lived.call("PATCH", "/accounts/eve", {"floor": -500, "max_amount": 800})
    await lived.call("POST", "/accounts/dora/freeze", {})
    await lived.call("DELETE", "/accounts/zoe")


async def _payments(lived: Lived, clock: Clock) -> None:
    later = {"delay_seconds": 7 * 86400}
    await lived.pay("settled", "alice", "bob", 100)
    await lived.pay("settled_too", "bob", "carol", 30)
    await lived.pay("failed", "carol", "alice", 900, funding="at_execution")
    until = (datetime.now(UTC) + timedelta(days=9)).isoformat()
    poor = {"funding": "at_execution", "on_insufficient": {"retry_until": until}}
    await lived.pay("retried", "carol", "alice", 900, **poor)
    await lived.pay("cancelled", "alice", "carol", 40)
    await lived.call("DELETE", f"/payments/{lived.ids['cancelled']}/cancel")
    await clock.advance(20)
    await drain(settler(lived.database))
    await lived.pay("open", "alice", "bob", 70, **later)
    await lived.pay("moved", "alice", "carol", 25, **later)
    body = {"delay_seconds": 8 * 86400}
    await lived.call("PATCH", f"/payments/{lived.ids['moved']}", body)
    await lived.pay("at_execution", "carol", "alice", 20, funding="at_execution", **later)
    await lived.call("PUT", "/settings/payment.approval_above", {"value": 1000})
    await lived.api.node.refresh_settings()
    second = await lived.api.new_key("payments:approve")
    await lived.pay("waiting", "alice", "bob", 1001, **later)
    for name, verdict in (("approved", "approve"), ("refused", "refuse")):
        payment_id = await lived.pay(name, "alice", "bob", 1100, **later)
        await lived.call("POST", f"/payments/{payment_id}/{verdict}", {}, key=second)


async def _jobs(lived: Lived) -> None:
    await lived.job("job_open")
    await lived.job("job_cancelled")
    await lived.call("POST", f"/jobs/{lived.ids['job_cancelled']}/cancel", {})
    await lived.job("job_unique", unique={"key": "reindex"})
    await lived.job("job_moved")
    await lived.call("PATCH", f"/jobs/{lived.ids['job_moved']}", {"delay_seconds": 31 * 86400})
    for name in ("job_done", "job_failed", "job_retried", "job_retried_too"):
        retry = {"max_attempts": 1 + name.startswith("job_retried"), "initial_seconds": 3600}
        job_id = await lived.job(name, lane=name, delay_seconds=0, retry=retry)
        body = {"max": 1, "lease_seconds": 60, "wait_seconds": 0}
        [lease] = (await lived.call("POST", f"/lanes/{name}/claim", body))["leases"]
        report = {"token": lease["token"]}
        if name == "job_done":
            await lived.call("POST", f"/leases/{job_id}/complete", report)
        else:
            again = name.startswith("job_retried")
            failure = {"code": "broken", "error": "it broke", "retryable": again}
            await lived.call("POST", f"/leases/{job_id}/fail", report | failure)
    await _decided_jobs(lived)


async def _decided_jobs(lived: Lived) -> None:
    """Have jobs run before their time, and say what became of those in doubt."""
    for name in ("job_hurried", "job_hurried_running"):
        job_id = await lived.job(name, lane=name)
        await lived.call("POST", f"/jobs/{job_id}/run-now", {})
    body = {"max": 1, "lease_seconds": 60, "wait_seconds": 0}
    await lived.call("POST", "/lanes/job_hurried_running/claim", body)
    for name in ("completed", "failed", "retry"):
        lane = f"doubt_{name}"
        job_id = await lived.job(lane, lane=lane, delay_seconds=0, retry={"on_unknown": "hold"})
        [lease] = (await lived.call("POST", f"/lanes/{lane}/claim", body))["leases"]
        report = {"token": lease["token"], "error": "it is gone", "unknown": True}
        await lived.call("POST", f"/leases/{job_id}/fail", report)
        await lived.call("POST", f"/jobs/{job_id}/resolve", {"outcome": name})
    await lived.call("POST", f"/jobs/{lived.ids['job_retried_too']}/run-now", {})


async def _schedules(lived: Lived, clock: Clock) -> None:
    expander = Expander(lived.database, wiring.occurrences(lived.api.node))
    rule = {"every_seconds": 3600, "misfire": {"policy": "fire_all", "per_minute": 6000}}
    made = await lived.call("POST", "/schedules", {"template": PULL, **rule})
    lived.ids["schedule"] = made["schedule_id"]
    payment = {"from_account_id": "alice", "to_account_id": "bob", "amount": 5}
    rent = {"template": {"payment": payment}, "every_seconds": 7200}
    lived.ids["rent"] = (await lived.call("POST", "/schedules", rent))["schedule_id"]
    for _ in range(4):
        await clock.advance(3600)
        await expand(expander)
    await lived.call("POST", f"/schedules/{lived.ids['schedule']}/trigger", {})
    await lived.call("POST", f"/schedules/{lived.ids['rent']}/pause", {"note": "summer"})
    await drain(settler(lived.database))


async def _definitions(lived: Lived) -> None:
    hook = {"name": "crm", "type": "webhook", "url": "https://example.com/crm"}
    await lived.call("POST", "/destinations", hook)
    await lived.call("PATCH", "/lanes/mail", {"max_running": 5})
    await lived.call("POST", "/calendars", {"name": "bank", "holidays": ["2031-01-01"]})
    limit = {"changes": [{"type": "limit_lane", "lane": "mail", "rate_per_second": 900}]}
    for name in ("change_set", "change_set_applied"):
        lived.ids[name] = (await lived.call("POST", "/change-sets", limit))["change_set_id"]
    await lived.call("POST", f"/change-sets/{lived.ids['change_set_applied']}/apply")
    narrow = {"scopes": ["payments:read"], "note": "reader"}
    lived.ids["key"] = (await lived.call("POST", "/keys", narrow))["key_id"]


async def _subscriptions(lived: Lived) -> None:
    def refuses(_: Delivery) -> Outcome:
        return Failed(code="http_503", error="503")

    deliverer = node(lived.database, Subscriber(answers={GONE_URL: refuses}), Settings())
    wishes = {"resting": "https://example.com/a", "failing": GONE_URL, "paused": GONE_URL}
    for name, url in wishes.items():
        wish = {"destination": {"type": "webhook", "url": url}, "types": ["payment.*"]}
        body = await lived.call("POST", "/subscriptions", wish | {"from": "beginning"})
        lived.ids[name] = body["subscription_id"]
    await lived.call("PATCH", f"/subscriptions/{lived.ids['paused']}", {"paused": True})
    await seal_all(lived.database, 500)
    for _ in range(3):
        await deliverer.run_once(64)
        await deliverer.drain()
