"""Live the life of a run: turn drawn operations into calls, aimed at what exists by then."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from postdate_lab.chaos.broker import SUBJECT
from postdate_lab.chaos.client import ChaosAnswer, RecordingClient
from postdate_lab.chaos.life import HALTED, LANES, LifeOperation, canary
from postdate_lab.chaos.receiver import Receivers

QUEUE: Final = "broker"
SCHEDULES_MAX: Final = 10
HALT_SECONDS: Final = 2.0
RECENT: Final = 40
"""Operations on something that exists pick one of the newest: older ones have mostly ended."""


class ChaosActor:
    """Everybody who uses the system during a run."""

    def __init__(
        self, clients: dict[str, RecordingClient], approvers: dict[str, str], receivers: Receivers,
        *, has_broker: bool,
    ) -> None:  # fmt: skip
        self._clients = clients
        self._approvers = approvers
        self._receivers = receivers
        self._has_broker = has_broker
        self._known: dict[tuple[str, str], deque[str]] = defaultdict(_newest)
        self._sent: dict[str, deque[tuple[int, Any]]] = defaultdict(_newest)
        self._halting = asyncio.Lock()

    async def act(self, one: LifeOperation) -> None:
        """Do one operation; what has nothing to aim at yet does nothing."""
        client = self._clients[one.tenant]
        noun, _, verb = one.kind.partition(".")
        match noun:
            case "payment":
                await self._payment(client, one, verb)
            case "approval":
                await self._approval(client, one)
            case "account":
                account = f"/accounts/a{one.pick % 6}/adjustments"
                key = f"adjust-{one.n}"
                await client.do(one.kind, one.n, "POST", account, one.body, key=key,
                                amount=one.body["amount"])  # fmt: skip
            case "job":
                await self._job(client, one, verb)
            case "schedule":
                await self._schedule(client, one, verb)
            case "halt":
                await self._halt(client, one)

    def _pick(self, one: LifeOperation, noun: str) -> str | None:
        known = self._known[one.tenant, noun]
        return known[one.pick % len(known)] if known else None

    async def _payment(self, client: RecordingClient, one: LifeOperation, verb: str) -> None:
        if verb == "schedule":
            await self._pay(client, one.n, one.body, one.kind)
            return
        if verb == "repeat":
            if sent := self._sent[one.tenant]:
                n, body = sent[one.pick % len(sent)]
                await self._pay(client, n, body, one.kind)
            return
        payment_id = self._pick(one, "payment")
        if payment_id is None:
            return
        path = f"/payments/{payment_id}"
        if verb == "cancel":
            await client.do(one.kind, one.n, "DELETE", f"{path}/cancel", subject=payment_id)
        elif verb == "reschedule":
            await client.do(one.kind, one.n, "PATCH", path, one.body, subject=payment_id)
        else:
            await client.do(one.kind, one.n, "GET", path, subject=payment_id)

    async def _pay(self, client: RecordingClient, n: int, body: Any, op: str) -> None:
        self._sent[client.tenant].append((n, body))
        answer = await client.do(
            op, n, "POST", "/payments/schedule", body, key=f"pay-{n}",
            delay=body["delay_seconds"], amount=body["amount"],
        )  # fmt: skip
        self._remember(client.tenant, "payment", answer, "payment_id")

    def _remember(self, tenant: str, noun: str, answer: ChaosAnswer | None, member: str) -> None:
        if answer is not None and answer.is_ok:
            self._known[tenant, noun].append(answer.body[member])

    async def _approval(self, client: RecordingClient, one: LifeOperation) -> None:
        waiting = await client.ask("GET", "/approvals?limit=20")
        if waiting is None or not waiting.is_ok or not waiting.body["payments"]:
            return
        found = waiting.body["payments"]
        payment_id = found[one.pick % len(found)]["payment_id"]
        path = f"/payments/{payment_id}/{one.word}"
        approver = self._approvers[client.tenant]
        await client.do(one.kind, one.n, "POST", path, one.body, as_key=approver,
                        subject=payment_id)  # fmt: skip

    def destined(self, tenant: str, drawn: dict[str, Any]) -> dict[str, Any]:
        """Turn the behaviour of a drawn job into its destination."""
        job = {name: value for name, value in drawn.items() if name != "behaviour"}
        behaviour = drawn["behaviour"]
        if behaviour == "queue" and not self._has_broker:
            behaviour = "obey"
        if behaviour == "worker":
            job["destination"] = {"type": "worker"}
        elif behaviour == "queue":
            subject = f"{SUBJECT}.{tenant}"
            job["destination"] = {"type": "queue", "name": QUEUE, "subject": subject}
        else:
            url = self._receivers.url(behaviour, tenant)
            job["destination"] = {"type": "webhook", "url": url}
        return job

    async def _job(self, client: RecordingClient, one: LifeOperation, verb: str) -> None:
        if verb == "create":
            body = self.destined(client.tenant, one.body)
            answer = await client.do(
                one.kind, one.n, "POST", "/jobs", body, key=f"job-{one.n}",
                delay=body["delay_seconds"], behaviour=one.body["behaviour"],
                on_unknown=body["retry"].get("on_unknown", "retry"),
            )  # fmt: skip
            self._remember(client.tenant, "job", answer, "job_id")
            return
        if verb == "batch":
            await self._batch(client, one)
            return
        job_id = self._pick(one, "job")
        if job_id is None:
            return
        path = f"/jobs/{job_id}"
        method, path, body = {
            "cancel": ("POST", f"{path}/cancel", {}),
            "reschedule": ("PATCH", path, one.body),
            "run_now": ("POST", f"{path}/run-now", {}),
            "read": ("GET", path, None),
        }[verb]
        await client.do(one.kind, one.n, method, path, body, subject=job_id)

    async def _batch(self, client: RecordingClient, one: LifeOperation) -> None:
        keys = f"batch-{one.n}-"
        jobs = [
            {**self.destined(client.tenant, job), "idempotency_key": f"{keys}{part}"}
            for part, job in enumerate(one.body["jobs"])
        ]
        answer = await client.do(
            one.kind, one.n, "POST", "/jobs/batch", {"jobs": jobs}, keep=batch_ids, keys=keys,
            delays=[job["delay_seconds"] for job in jobs], wall=time.time(),
            held=[n for n, job in enumerate(jobs) if "on_unknown" in job["retry"]],
        )  # fmt: skip
        made = batch_ids(answer.body)["ids"] if answer and answer.is_ok else ()
        self._known[client.tenant, "job"].extend(filter(None, made))

    async def _schedule(self, client: RecordingClient, one: LifeOperation, verb: str) -> None:
        known = self._known[one.tenant, "schedule"]
        if verb == "create":
            if len(known) < SCHEDULES_MAX:
                answer = await client.do(
                    one.kind, one.n, "POST", "/schedules", self._templated(client.tenant, one.body),
                    key=f"schedule-{one.n}", rule={
                        name: one.body.get(name) for name in ("every_seconds", "cron", "overlap")
                    }, misfire=one.body["misfire"]["policy"],
                )  # fmt: skip
                self._remember(client.tenant, "schedule", answer, "schedule_id")
        elif known:
            schedule_id = known[one.pick % len(known)]
            body = {"note": "chaos"} if one.word == "pause" else None
            key = f"trigger-{one.n}" if one.word == "trigger" else ""
            path = f"/schedules/{schedule_id}/{one.word}"
            await client.do(f"schedule.{one.word}", one.n, "POST", path, body, key=key,
                            subject=schedule_id)  # fmt: skip

    def _templated(self, tenant: str, drawn: dict[str, Any]) -> dict[str, Any]:
        template = drawn["template"]
        if "job" in template:
            template = {"job": self.destined(tenant, template["job"])}
        return {**drawn, "template": template}

    async def _halt(self, client: RecordingClient, one: LifeOperation) -> None:
        """Halt the tenant for a moment; one halt at a time."""
        if self._halting.locked():
            return
        async with self._halting:
            path, body = f"/{one.word}", dict(one.body)
            if one.word == "freeze":
                until = datetime.now(UTC) + timedelta(minutes=5)
                body |= {"until": until.isoformat(), "mode": "hold"}
            answer = await client.do("halt.turn", one.n, "PUT", path, body, word=one.word)
            if answer is not None and answer.is_ok:
                await asyncio.sleep(HALT_SECONDS)
            await client.do("halt.lift", one.n, "DELETE", path, word=one.word)

    async def prepare(self) -> None:
        """Make what the life of every tenant needs: accounts with money, lanes, a subscription."""
        for tenant, client in self._clients.items():
            await need(client, "PUT", "/settings/payment.approval_above", {"value": 5000})
            for n in range(6):
                await need(client, "POST", "/accounts", {"account_id": f"a{n}"}, f"account-{n}")
                credit = {"amount": 200_000, "reason": "opening"}
                await need(client, "POST", f"/accounts/a{n}/adjustments", credit, f"opening-{n}")
            far = {"destination": {"type": "webhook", "url": self._receivers.url("obey", tenant)}}
            for lane in LANES[1:]:
                # A lane is made by its first job, which is cancelled before it is due.
                job = {**far, "lane": lane, "delay_seconds": 86400}
                made = await need(client, "POST", "/jobs", job, f"lane-{lane}")
                await need(client, "POST", f"/jobs/{made['job_id']}/cancel", {})
            await need(client, "PATCH", "/lanes/narrow", {"max_running": 2})
            await need(client, "PATCH", "/lanes/rated", {"rate_per_second": 20})
            where = {"type": "webhook", "url": self._receivers.url("events", tenant)}
            types = ["payment.completed", "payment.failed", "payment.cancelled"]
            await need(client, "POST", "/subscriptions",
                        {"destination": where, "types": types, "from": "beginning"})  # fmt: skip

    async def add_broker(self, url: str, clients: Iterable[RecordingClient]) -> None:
        """Register the broker with tenants."""
        config = {"servers": [url], "subject": f"{SUBJECT}.jobs"}
        queue = {"name": QUEUE, "type": "queue", "kind": "nats", "config": config}
        for client in clients:
            await need(client, "POST", "/destinations", queue)

    async def lift(self) -> None:
        """End every halt; what was halted must end too."""
        client = self._clients[HALTED]
        for path in ("/kill-switch", "/freeze"):
            await client.do("halt.lift", 0, "DELETE", path)

    async def stop_schedules(self) -> None:
        """Delete every schedule: its occurrences stay, and none is added."""
        for (tenant, noun), known in list(self._known.items()):
            for schedule_id in known if noun == "schedule" else ():
                path = f"/schedules/{schedule_id}"
                await self._clients[tenant].do("schedule.delete", 0, "DELETE", path)

    async def decide_everything(self) -> None:
        """Refuse what still waits for an approval, and let what is in doubt fail."""
        for tenant, client in self._clients.items():
            waiting = await client.ask("GET", "/approvals?limit=100")
            for payment in waiting.body["payments"] if waiting and waiting.is_ok else ():
                path = f"/payments/{payment['payment_id']}/refuse"
                await client.ask("POST", path, {"note": "the end"}, as_key=self._approvers[tenant])
            await resolve_doubts(client)

    async def probe(self, number: int) -> str | None:
        """Send a job that is due at once; give its id."""
        tenant, client = next(iter(self._clients.items()))
        url = self._receivers.url("obey", tenant)
        payload = {"canary": canary(tenant), "n": -number, "part": 0}
        job = {"destination": {"type": "webhook", "url": url}, "payload": payload}
        answer = await client.do("probe", number, "POST", "/jobs", job, key=f"probe-{number}")
        return str(answer.body["job_id"]) if answer and answer.is_ok else None


async def resolve_doubts(client: RecordingClient) -> None:
    """Let the jobs of a tenant fail that are in doubt.

    Nobody knows whether they have arrived: called complete, it would look as if they had.
    """
    doubtful = await client.ask("GET", "/jobs?status=UNKNOWN&limit=100")
    for job in doubtful.body["jobs"] if doubtful and doubtful.is_ok else ():
        await client.ask("POST", f"/jobs/{job['job_id']}/resolve", {"outcome": "failed"})


def batch_ids(answer: dict[str, Any]) -> dict[str, Any]:
    """Keep the id of each item, null for a refused one, and the codes of refusals."""
    outcomes = answer["outcomes"]
    codes = {each["problem"]["code"] for each in outcomes if "problem" in each}
    return {"ids": [_id(each) for each in outcomes], "codes": sorted(codes)}


def _id(outcome: dict[str, Any]) -> str | None:
    made = outcome.get("job") or outcome.get("payment") or {}
    return made.get("job_id") or made.get("payment_id")


def _newest() -> deque[Any]:
    return deque(maxlen=RECENT)


async def need(client: RecordingClient, method: str, path: str, body: Any, key: str = "") -> Any:
    """Ask for something without which there is no run."""
    answer = await client.do("prepare", 0, method, path, body, key=key)
    if answer is None or not answer.is_ok:
        raise RuntimeError(f"{method} {path} was answered with {answer}")
    return answer.body
