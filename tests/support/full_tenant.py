"""A tenant with one of everything, and how each route is called on it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from conftest import INTERNAL_TOKEN, Answered, Api
from support.bulk_work import confirmed_bulk_action

WORKER = {"type": "worker"}
_HOOK = {"type": "webhook", "url": "https://example.com/"}
HOLD = {"on_unknown": "hold", "max_attempts": 1}
UNIQUE = {"key": "reindex"}
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"on_conflict": "replace"},
    {"on_conflict": "debounce", "max_delay_seconds": 60},
)


@dataclass
class FullTenant:
    """Names and ids of what one tenant has."""

    setting: str = "job.max_attempts"
    tenant: str = ""
    destination: str = "hook-of-a"
    account: str = "alice-of-a"
    payee: str = "bob-of-a"
    empty: str = "carol-of-a"
    lane: str = "lane-of-a"
    payment: str = ""
    due: str = ""
    paid: str = ""
    unapproved: str = ""
    job: str = ""
    leased: str = ""
    token: int = 1
    dead: str = ""
    doubtful: str = ""
    subscription: str = ""
    schedule: str = ""
    calendar: str = "calendar-of-a"
    key: str = ""
    change_set: str = ""
    bulk_action: str = ""

    @property
    def marks(self) -> list[str]:
        """What must never be read by anybody else."""
        everything = vars(self)
        public = {"setting", "tenant", "token"}
        return [value for name, value in everything.items() if name not in public]


async def build(api: Api) -> FullTenant:
    """Make one of everything."""
    full = FullTenant(tenant=api.tenant)
    hook = {"name": full.destination, "url": "https://example.com/"}
    await _done(api, "POST", "/destinations", hook)
    for account in (full.account, full.payee, full.empty):
        await _done(api, "POST", "/accounts", {"account_id": account})
    credit = {"amount": 1000, "reason": "start"}
    await _done(api, "POST", f"/accounts/{full.account}/adjustments", credit)
    full.payment = await _pay(api, full, 3600)
    full.due = await _due(api, full, 1)
    full.paid = await _due(api, full, 50)
    await _done(api, "POST", f"/internal/payments/{full.paid}/execute", {"execution_id": "x"})
    full.unapproved = await _large(api, full)
    await _done(api, "PUT", f"/settings/{full.setting}", {"value": 5})
    lease = await _claimed(api, full)
    full.leased, full.token = lease["job_id"], lease["token"]
    full.dead = await _failed(api, full, retryable=False)
    full.doubtful = await _failed(api, full, unknown=True)
    told = await _done(api, "POST", "/subscriptions", {"destination": _HOOK})
    full.subscription = told.body["subscription_id"]
    await _done(api, "POST", "/calendars", {"name": full.calendar, "holidays": ["2030-01-01"]})
    made = await _done(api, "POST", "/schedules", _rule(full))
    full.schedule = made.body["schedule_id"]
    made = await _done(api, "POST", "/keys", {"scopes": ["jobs:read"], "note": "spare"})
    full.key = made.body["key_id"]
    change = {"changes": [{"type": "pause_schedule", "schedule_id": full.schedule}]}
    full.change_set = (await _done(api, "POST", "/change-sets", change)).body["change_set_id"]
    job = {"destination": WORKER, "lane": full.lane, "delay_seconds": 3600, "unique": UNIQUE}
    full.job = (await _done(api, "POST", "/jobs", job)).body["job_id"]
    full.bulk_action = await confirmed_bulk_action(api, "cancel_jobs", {full.job: "PENDING"})
    return full


async def _done(api: Api, method: str, path: str, body: Any) -> Answered:
    headers = {"Idempotency-Key": f"{path} {body}", "X-Internal-Auth": INTERNAL_TOKEN}
    answer = await api.call(method, path, body, headers=headers)
    assert answer.status < 300, answer.body
    return answer


async def _pay(api: Api, full: FullTenant, delay: int, amount: int = 1) -> str:
    order = {
        "from_account_id": full.account,
        "to_account_id": full.payee,
        "amount": amount,
        "delay_seconds": delay,
    }
    return str((await _done(api, "POST", "/payments/schedule", order)).body["payment_id"])


async def _due(api: Api, full: FullTenant, amount: int) -> str:
    """Schedule a payment, and make it due."""
    made = await _pay(api, full, 1, amount)
    await api.node.database.writer.execute(
        "UPDATE timer SET due_at = clock() WHERE subject = $1::uuid", UUID(made)
    )
    return made


async def _large(api: Api, full: FullTenant) -> str:
    """Schedule a payment, by another key, that needs approval."""
    await _done(api, "PUT", "/settings/payment.approval_above", {"value": 90})
    await api.node.refresh_settings()
    asks = replace(api, key=await api.new_key("payments:write"))
    return await _pay(asks, full, 7200, 91)


async def _claimed(api: Api, full: FullTenant) -> Any:
    await _done(api, "POST", "/jobs", {"destination": WORKER, "lane": full.lane, "retry": HOLD})
    answer = await api.call("POST", f"/lanes/{full.lane}/claim", {"max": 1})
    return answer.body["leases"][0]


async def _failed(api: Api, full: FullTenant, **how: Any) -> str:
    body = {"destination": WORKER, "lane": full.lane, "retry": HOLD, "description": " ".join(how)}
    await _done(api, "POST", "/jobs", body)
    lease = (await api.call("POST", f"/lanes/{full.lane}/claim", {"max": 1})).body["leases"][0]
    report = {"token": lease["token"], "error": "no", **how}
    await _done(api, "POST", f"/leases/{lease['job_id']}/fail", report)
    return str(lease["job_id"])


Make = Callable[[FullTenant], Any]


@dataclass(frozen=True)
class Row:
    """How to call a route: the body, which thing the path names, and what others get.

    `foreign` is what another tenant's admin gets with the owner's ids; without it, 404 on routes
    that name a thing, and the usual success on those that do not. `live` is what the owner gets
    where the route is for tenants in test mode, which this one is not.
    """

    body: Make | None = None
    thing: str = ""
    foreign: int | None = None
    live: int | None = None


def _order(full: FullTenant) -> dict[str, Any]:
    return {
        "from_account_id": full.account,
        "to_account_id": full.payee,
        "amount": 5,
        "delay_seconds": 60,
    }


def _rule(_: FullTenant) -> dict[str, Any]:
    return {"every_seconds": 86_400, "template": {"job": {"destination": WORKER}}}


def _range(_: FullTenant) -> dict[str, Any]:
    return {"from": _later(-48), "until": _later(-1), "dry_run": True}


def _later(hours: int) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat()


def _empty(_: FullTenant) -> dict[str, Any]:
    return {}


def _token(full: FullTenant) -> dict[str, Any]:
    return {"token": full.token}


def _failure(full: FullTenant) -> dict[str, Any]:
    return {"token": full.token, "error": "e"}


ROWS: dict[str, Row] = {
    "GET /whoami": Row(),
    "POST /keys": Row(lambda _: {"scopes": ["jobs:read"]}),
    "GET /keys": Row(),
    "DELETE /keys/{key_id:uuid}": Row(thing="key"),
    "POST /keys/{key_id:uuid}/rotate": Row(_empty, "key"),
    "GET /audit": Row(),
    "GET /halts": Row(),
    "PUT /kill-switch": Row(lambda _: {"note": "why"}),
    "DELETE /kill-switch": Row(),
    "PUT /freeze": Row(lambda _: {"until": _later(9), "note": "why"}),
    "DELETE /freeze": Row(),
    "POST /internal/tenants": Row(lambda _: {"name": f"t-{uuid4().hex}"}),
    "GET /internal/tenants": Row(),
    "POST /internal/tenants/{name}/disable": Row(lambda _: {"note": "why"}, "tenant"),
    "POST /internal/tenants/{name}/enable": Row(thing="tenant"),
    "GET /settings": Row(),
    # Settings are named by us, not by tenants: another tenant changes its own.
    "PUT /settings/{name}": Row(lambda _: {"value": 7}, "setting", foreign=200),
    "DELETE /settings/{name}": Row(thing="setting"),
    "POST /destinations": Row(lambda _: {"name": "new", "url": "https://example.com/"}),
    "GET /destinations": Row(),
    "GET /destinations/{name}": Row(thing="destination"),
    "PATCH /destinations/{name}": Row(lambda _: {"max_running": 3}, "destination"),
    "DELETE /destinations/{name}": Row(thing="destination"),
    "POST /destinations/{name}/rotate-secret": Row(_empty, "destination"),
    "POST /destinations/{name}/disable": Row(_empty, "destination"),
    "POST /destinations/{name}/enable": Row(thing="destination"),
    "POST /destinations/{name}/pause": Row(lambda _: {"reason": "release"}, "destination"),
    "POST /destinations/{name}/resume": Row(lambda _: {}, "destination"),
    "POST /destinations/{name}/test": Row(thing="destination"),
    "GET /signing-secret": Row(),
    "POST /signing-secret/rotate": Row(_empty),
    "POST /accounts": Row(lambda _: {"account_id": "dora"}),
    "GET /accounts": Row(),
    "GET /accounts/{account_id}": Row(thing="account"),
    "PATCH /accounts/{account_id}": Row(lambda _: {"note": "n"}, "account"),
    "POST /accounts/{account_id}/freeze": Row(thing="account"),
    "POST /accounts/{account_id}/unfreeze": Row(thing="account"),
    "DELETE /accounts/{account_id}": Row(thing="empty"),
    "GET /accounts/{account_id}/entries": Row(thing="account"),
    "GET /accounts/{account_id}/statement": Row(thing="account"),
    "POST /accounts/{account_id}/adjustments": Row(
        lambda _: {"amount": 5, "reason": "r"}, "account"
    ),
    "POST /payments/schedule": Row(_order, foreign=422),
    "POST /payments/batch": Row(lambda w: {"payments": [{**_order(w), "idempotency_key": "b"}]}),
    "GET /payments": Row(),
    "GET /payments/{payment_id:uuid}": Row(thing="payment"),
    "GET /payments/{payment_id:uuid}/executions": Row(thing="payment"),
    "GET /payments/{payment_id:uuid}/events": Row(thing="payment"),
    "GET /approvals": Row(),
    "POST /payments/{payment_id:uuid}/approve": Row(_empty, "unapproved"),
    "POST /payments/{payment_id:uuid}/refuse": Row(_empty, "unapproved"),
    "DELETE /payments/{payment_id:uuid}/cancel": Row(thing="payment"),
    "PATCH /payments/{payment_id:uuid}": Row(lambda _: {"delay_seconds": 99}, "payment"),
    "POST /payments/{payment_id:uuid}/refund": Row(lambda _: {"amount": 1}, "paid"),
    "POST /internal/payments/{payment_id:uuid}/execute": Row(
        lambda _: {"execution_id": "x"}, "due"
    ),
    "POST /jobs": Row(lambda _: {"destination": WORKER}),
    "POST /jobs/batch": Row(
        lambda full: {
            "jobs": [{"destination": WORKER}]
            + [
                {"destination": WORKER, "lane": full.lane, "unique": {**UNIQUE, **way}}
                for way in WAYS
            ]
        }
    ),
    "GET /jobs": Row(),
    "GET /jobs/{job_id:uuid}": Row(thing="job"),
    "GET /jobs/{job_id:uuid}/attempts": Row(thing="dead"),
    "PATCH /jobs/{job_id:uuid}": Row(lambda _: {"delay_seconds": 99}, "job"),
    "POST /jobs/{job_id:uuid}/cancel": Row(lambda _: {"deadline_seconds": 0}, "job"),
    "POST /jobs/{job_id:uuid}/run-now": Row(thing="job"),
    "POST /jobs/{job_id:uuid}/resolve": Row(lambda _: {"outcome": "completed"}, "doubtful"),
    "POST /jobs/bulk/cancel": Row(lambda w: {"filter": {"lane": w.lane}}),
    "POST /jobs/bulk/reschedule": Row(
        lambda w: {
            "filter": {"lane": w.lane, "due_before": _later(hours=9)},
            "to": {"run_at": _later(hours=10)},
        }
    ),
    # A lane that nobody has used yet is an empty one: workers may wait before the first job.
    "POST /lanes/{lane}/claim": Row(_empty, "lane", foreign=200),
    "POST /leases/{job_id:uuid}/complete": Row(_token, "leased"),
    "POST /leases/{job_id:uuid}/fail": Row(_failure, "leased"),
    "POST /leases/{job_id:uuid}/renew": Row(_token, "leased"),
    "POST /leases/{job_id:uuid}/progress": Row(_token, "leased"),
    "POST /leases/{job_id:uuid}/release": Row(_token, "leased"),
    "GET /events": Row(),
    "POST /subscriptions": Row(lambda _: {"destination": _HOOK}),
    "GET /subscriptions": Row(),
    "GET /subscriptions/{subscription_id:uuid}": Row(thing="subscription"),
    "PATCH /subscriptions/{subscription_id:uuid}": Row(lambda _: {"paused": True}, "subscription"),
    "POST /subscriptions/{subscription_id:uuid}/replay": Row(
        lambda _: {"from": "beginning"}, "subscription"
    ),
    "DELETE /subscriptions/{subscription_id:uuid}": Row(thing="subscription"),
    "POST /schedules": Row(_rule),
    "POST /schedules/preview": Row(lambda _: {"cron": "@daily", "count": 3}),
    "GET /schedules": Row(),
    "GET /schedules/{schedule_id:uuid}": Row(thing="schedule"),
    "PATCH /schedules/{schedule_id:uuid}": Row(lambda _: {"every_seconds": 7200}, "schedule"),
    "POST /schedules/{schedule_id:uuid}/pause": Row(lambda _: {"note": "x"}, "schedule"),
    "POST /schedules/{schedule_id:uuid}/resume": Row(thing="schedule"),
    "POST /schedules/{schedule_id:uuid}/trigger": Row(thing="schedule"),
    "POST /schedules/{schedule_id:uuid}/backfill": Row(_range, "schedule"),
    "GET /schedules/{schedule_id:uuid}/preview": Row(thing="schedule"),
    "GET /schedules/{schedule_id:uuid}/occurrences": Row(thing="schedule"),
    "DELETE /schedules/{schedule_id:uuid}": Row(thing="schedule"),
    "POST /calendars": Row(lambda _: {"name": "another", "holidays": []}),
    "GET /calendars": Row(),
    "GET /calendars/{name}": Row(thing="calendar"),
    "DELETE /calendars/{name}": Row(thing="calendar"),
    "GET /test-clock": Row(foreign=409, live=409),
    "POST /test-clock/advance": Row(lambda _: {"by": "1d"}, foreign=409, live=409),
    "GET /test-clock/entries": Row(foreign=409, live=409),
    "GET /foresight/load": Row(),
    "GET /foresight/money": Row(),
    "GET /internal/foresight/load": Row(),
    "GET /payments/{payment_id:uuid}/receipt": Row(thing="payment", live=409),
    "GET /jobs/{job_id:uuid}/receipt": Row(thing="job", live=409),
    "GET /receipt-keys": Row(),
    "POST /change-sets": Row(
        lambda full: {"changes": [{"type": "pause_lane", "lane": full.lane}]}, foreign=404
    ),
    "GET /change-sets": Row(),
    "GET /change-sets/{change_set_id:uuid}": Row(thing="change_set"),
    "GET /change-sets/{change_set_id:uuid}/items": Row(thing="change_set"),
    "POST /change-sets/{change_set_id:uuid}/apply": Row(thing="change_set"),
    "POST /change-sets/{change_set_id:uuid}/undo": Row(thing="change_set", live=409),
    "POST /lanes": Row(lambda _: {"lane": "another"}),
    "GET /bulk-actions": Row(),
    "GET /bulk-actions/{bulk_action_id:uuid}": Row(thing="bulk_action"),
    "GET /bulk-actions/{bulk_action_id:uuid}/items": Row(thing="bulk_action"),
    "POST /bulk-actions/{bulk_action_id:uuid}/start": Row(thing="bulk_action"),
    "POST /bulk-actions/{bulk_action_id:uuid}/stop": Row(thing="bulk_action"),
    "GET /lanes": Row(),
    "GET /lanes/{lane}": Row(thing="lane"),
    "PATCH /lanes/{lane}": Row(lambda _: {"weight": 3}, "lane"),
    "POST /lanes/{lane}/pause": Row(_empty, "lane"),
    "POST /lanes/{lane}/resume": Row(thing="lane"),
    "GET /dead-letters": Row(),
    "GET /dead-letters/{job_id:uuid}": Row(thing="dead"),
    "POST /dead-letters/redrive": Row(lambda w: {"job_ids": [w.dead]}),
    "POST /dead-letters/purge": Row(lambda w: {"job_ids": [w.dead]}),
    "DELETE /dead-letters/{job_id:uuid}": Row(thing="dead"),
}
