"""Payloads of a tenant that wants them encrypted: sealed at rest, the same to all who may read."""

from base64 import b64encode
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from conftest import SECRET_KEY, Answered, Api, Clock
from postdate.core.identity import Identity, Scope
from postdate.intake.idempotency import keyed
from postdate.intake.store import KeyScope, key_of
from postdate.job.accept.intake import JobIntake
from postdate.job.accept.validation import canonical
from postdate.job.spec.job import JobSpec
from postdate.node import job as jobs
from postdate.node.schedule import occurrences
from postdate.payment.accept.intake import PaymentIntake
from postdate.schedule.change.occurrence import OccurrenceIntake
from postdate.schedule.change.occurrence_job import JobOccurrences
from postdate.schedule.change.occurrence_payment import PaymentOccurrences
from postdate.schedule.view import ScheduleViews
from postdate.scheduler.expander import Expander
from postdate.secret import secret_rotation
from postdate.secret.payload_encryption import MARK, PayloadCipher
from postdate.secret.secret import Keyring, SecretError, parse_key
from support.schedule import drain

WORKER = {"type": "worker"}
PAYLOAD = {"name": "Ada Lovelace", "iban": "DE00 1234"}
OPAQUE = b64encode(b"Ada Lovelace, opaque").decode()


@pytest.fixture
async def sealing(api: Api) -> Api:
    assert (await api.call("PUT", "/settings/job.encryption", {"value": "on"})).status == 200
    await api.node.refresh_settings()
    return api


async def make(api: Api, key: str | None = None, **fields: Any) -> Answered:
    body = {"destination": WORKER, "lane": "lane", "payload": PAYLOAD, **fields}
    return await api.call("POST", "/jobs", body, headers={"Idempotency-Key": key or str(uuid4())})


async def stored(api: Api, job_id: str, table: str = "job") -> list[bytes]:
    rows = await api.node.database.writer.fetch(
        f"SELECT payload FROM {table} WHERE job_id = $1",
        UUID(job_id),
    )
    return [row[0] for row in rows]


async def claim(api: Api, **fields: Any) -> Any:
    answer = await api.call("POST", "/lanes/lane/claim", {"max": 10, **fields})
    return answer.body["leases"]


async def test_it_is_encrypted_at_rest_and_read_as_it_came(sealing: Api) -> None:
    made = (await make(sealing)).body["job_id"]
    (at_rest,) = await stored(sealing, made)
    assert at_rest.startswith(MARK)
    assert b"Ada Lovelace" not in at_rest
    assert (await sealing.call("GET", f"/jobs/{made}")).body["payload"] == PAYLOAD
    (lease,) = await claim(sealing)
    assert lease["payload"] == PAYLOAD


async def test_a_result_is_encrypted_at_rest_and_read_as_it_was_reported(sealing: Api) -> None:
    made = (await make(sealing)).body["job_id"]
    (lease,) = await claim(sealing)
    report = {"token": lease["token"], "result": {"greeted": "Ada Lovelace"}}
    assert (await sealing.call("POST", f"/leases/{made}/complete", report)).status == 200
    at_rest = await sealing.node.database.writer.fetchval(
        "SELECT response FROM outcome WHERE subject = $1", UUID(made)
    )
    assert at_rest.startswith(MARK)
    assert b"Ada Lovelace" not in at_rest
    assert (await sealing.call("GET", f"/jobs/{made}")).body["result"] == report["result"]
    [attempt] = (await sealing.call("GET", f"/jobs/{made}/attempts")).body["attempts"]
    assert msgspec.json.decode(attempt["response"]) == report["result"]


async def test_progress_is_encrypted_at_rest_and_read_as_it_was_reported(sealing: Api) -> None:
    await sealing.call("PUT", "/settings/event.verbose", {"value": "on"})
    await sealing.node.refresh_settings()
    made = (await make(sealing, retry={"initial_seconds": 0.01})).body["job_id"]
    (lease,) = await claim(sealing)
    said = {"note": "for Ada Lovelace", "checkpoint": PAYLOAD, "log": ["Ada Lovelace"]}
    for percent in (10, 20):
        report = {"token": lease["token"], "percent": percent, **said}
        answered = await sealing.call("POST", f"/leases/{made}/progress", report)
        assert answered.status == 200, answered.body
    writer = sealing.node.database.writer
    for column, table in (("note", "job_progress"), ("checkpoint", "job_progress"),
                          ("lines", "attempt_log")):  # fmt: skip
        at_rest = await writer.fetchval(
            f"SELECT {column} FROM {table} WHERE job_id = $1", UUID(made)
        )
        assert at_rest.startswith(MARK), column
        assert b"Ada Lovelace" not in at_rest
    shown = (await sealing.call("GET", f"/jobs/{made}")).body["progress"]
    assert (shown["note"], shown["log"]) == (said["note"], ["Ada Lovelace"] * 2)
    rows = await writer.fetch("SELECT type, data FROM event WHERE subject = $1", UUID(made))
    told = [data for kind, data in rows if kind == "job.progressed"]
    assert sorted(each["percent"] for each in told) == [10, 20]
    assert "Ada Lovelace" not in str(told)
    await sealing.call("POST", f"/leases/{made}/fail", {"token": lease["token"], "error": "no"})
    (again,) = await claim(sealing, wait_seconds=10)
    assert (again["attempt"], again["checkpoint"]) == (2, PAYLOAD)


async def test_the_key_names_the_same_request_without_telling_it(sealing: Api) -> None:
    first, again = await make(sealing, "k"), await make(sealing, "k")
    assert (again.status, again.body["job_id"]) == (201, first.body["job_id"])
    other = await make(sealing, "k", payload={"name": "Eve"})
    assert (other.status, other.body["differs"]) == (422, ["payload"])
    kept = await sealing.node.database.writer.fetchrow(
        "SELECT kept, fingerprint FROM idempotency WHERE subject = $1",
        UUID(first.body["job_id"]),
    )
    spec = {"destination": WORKER, "lane": "lane", "payload": PAYLOAD}
    plain = canonical(msgspec.json.decode(msgspec.json.encode(spec), type=JobSpec))
    assert kept is not None
    asked = keyed(key_of(1, KeyScope.JOB, "key"), plain)
    assert (kept["kept"], kept["fingerprint"] == asked.fingerprint) == (None, False)


async def test_a_change_and_a_redrive_are_sealed_too(sealing: Api) -> None:
    made = (await make(sealing, delay_seconds=600)).body["job_id"]
    changed = {"payload": {"name": "Bob"}, "delay_seconds": 0}
    assert (await sealing.call("PATCH", f"/jobs/{made}", changed)).status == 200
    assert all(one.startswith(MARK) for one in await stored(sealing, made, "job_revision"))
    (lease,) = await claim(sealing)
    assert lease["payload"] == {"name": "Bob"}
    report = {"token": lease["token"], "error": "no", "retryable": False}
    await sealing.call("POST", f"/leases/{made}/fail", report)
    told = await sealing.call("POST", "/dead-letters/redrive", {"job_ids": [made]})
    assert told.status == 200, told.body
    (again,) = await claim(sealing)
    assert (again["job_id"] != made, again["payload"]) == (True, {"name": "Bob"})
    assert (await stored(sealing, again["job_id"]))[0].startswith(MARK)


async def test_what_was_stored_before_and_after_stays_readable(sealing: Api) -> None:
    sealed = (await make(sealing)).body["job_id"]
    await sealing.call("PUT", "/settings/job.encryption", {"value": "off"})
    await sealing.node.refresh_settings()
    plain = (await make(sealing)).body["job_id"]
    assert b"Ada Lovelace" in (await stored(sealing, plain))[0]
    for job_id in (sealed, plain):
        assert (await sealing.call("GET", f"/jobs/{job_id}")).body["payload"] == PAYLOAD


async def test_rotating_the_servers_key_covers_them(sealing: Api) -> None:
    made = (await make(sealing)).body["job_id"]
    database, old, new = sealing.node.database, parse_key(SECRET_KEY), bytes(range(32))
    await secret_rotation.rotate(database, Keyring([new, old]))
    (at_rest,) = await stored(sealing, made)
    tenant_id = await database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", sealing.tenant
    )
    async with database.connection() as connection:
        opened = await PayloadCipher(Keyring([new])).decrypt(
            connection, tenant_id, UUID(made), at_rest
        )
        assert opened is not None
        assert b"Ada Lovelace" in opened
        with pytest.raises(SecretError):
            await PayloadCipher(Keyring([old])).decrypt(connection, tenant_id, UUID(made), at_rest)
        with pytest.raises(SecretError):  # bound to its row
            await PayloadCipher(Keyring([new])).decrypt(connection, tenant_id, uuid4(), at_rest)
    await secret_rotation.rotate(database, Keyring([old, new]))


async def test_a_payload_that_poses_as_sealed_is_refused(api: Api) -> None:
    posing = b64encode(MARK + b"x" * 40).decode()
    body = {"destination": WORKER, "payload_base64": posing}
    answer = await api.call("POST", "/jobs", body)
    assert (answer.status, answer.body["field"]) == (422, "payload_base64")


DAILY = {"cron": "@daily"}


async def schedule(api: Api, job: dict[str, Any], key: str | None = None) -> Answered:
    body = {**DAILY, "template": {"job": {"destination": WORKER, "lane": "lane", **job}}}
    headers = {"Idempotency-Key": key} if key else {}
    return await api.call("POST", "/schedules", body, headers=headers)


async def at_rest(api: Api, schedule_id: str) -> list[str]:
    """Everything that is stored about a schedule, as text."""
    rows = await api.node.database.writer.fetch(
        """SELECT template::text FROM schedule_version WHERE schedule_id = $1
            UNION ALL SELECT convert_from(kept, 'UTF8') FROM idempotency WHERE subject = $1
            UNION ALL SELECT data::text FROM event WHERE subject = $1""",
        UUID(schedule_id),
    )
    return [row[0] for row in rows]


@pytest.mark.parametrize(
    "job",
    [
        {"payload": PAYLOAD},
        {
            "payload_base64": OPAQUE,
            "content_type": "text/plain",
        },
    ],
)
async def test_the_template_of_a_schedule_is_encrypted_too(
    sealing: Api, job: dict[str, Any]
) -> None:
    made = await schedule(sealing, job, "k")
    assert made.status == 201, made.body
    assert "payload" not in made.body["template"]["job"]
    schedule_id = made.body["schedule_id"]
    stored_text = "".join(await at_rest(sealing, schedule_id))
    assert "Ada Lovelace" not in stored_text
    assert OPAQUE not in stored_text
    shown = (await sealing.call("GET", f"/schedules/{schedule_id}")).body["template"]["job"]
    assert {name: shown.get(name) for name in job} == job
    listed = (await sealing.call("GET", "/schedules")).body["schedules"]
    assert [each["template"]["job"] for each in listed] == [shown]
    ran = (await sealing.call("POST", f"/schedules/{schedule_id}/trigger")).body["job_id"]
    (payload,) = await stored(sealing, ran)
    assert payload.startswith(MARK)
    (lease,) = await claim(sealing)
    assert {name: lease.get(name) for name in job} == job


async def test_a_sealed_schedule_is_changed_and_repeated(sealing: Api) -> None:
    first = await schedule(sealing, {"payload": PAYLOAD}, "again")
    again = await schedule(sealing, {"payload": PAYLOAD}, "again")
    assert (again.status, again.body) == (201, first.body)
    other = await schedule(sealing, {"payload": {"name": "Eve"}}, "again")
    assert (other.status, other.body["differs"]) == (422, ["template"])
    path = f"/schedules/{first.body['schedule_id']}"
    changed = await sealing.call("PATCH", path, {"cron": "@hourly"})
    assert (changed.status, changed.body["template"]["job"]["payload"]) == (200, PAYLOAD)
    assert "Ada Lovelace" not in "".join(await at_rest(sealing, first.body["schedule_id"]))
    await sealing.call("PUT", "/settings/job.encryption", {"value": "off"})
    await sealing.node.refresh_settings()
    assert (await sealing.call("GET", path)).body["template"]["job"]["payload"] == PAYLOAD
    await sealing.call("PATCH", path, {"name": "in the clear"})
    assert "Ada Lovelace" in "".join(await at_rest(sealing, first.body["schedule_id"]))


async def test_a_rule_expands_a_sealed_template(sealing: Api, clock: Clock) -> None:
    made = await schedule(sealing, {"payload": PAYLOAD})
    await clock.advance(86_400)
    expanding = Expander(sealing.node.database, occurrences(sealing.node))
    await drain(expanding)
    (lease,) = await claim(sealing)
    assert lease["payload"] == PAYLOAD
    (payload,) = await stored(sealing, lease["job_id"])
    assert payload.startswith(MARK)
    book = await sealing.call("GET", f"/schedules/{made.body['schedule_id']}/occurrences")
    assert len(book.body["occurrences"]) == 1


async def test_a_template_that_poses_as_sealed_is_refused(api: Api) -> None:
    posing = b64encode(MARK + b"x" * 40).decode()
    answer = await schedule(api, {"payload_base64": posing})
    assert (answer.status, answer.body["field"]) == (422, "template.job.payload_base64")


async def test_a_template_that_cannot_be_opened_holds_up_no_other(
    sealing: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await schedule(sealing, {"payload": PAYLOAD})
    other = await schedule(sealing, {})
    node, cipher = sealing.node, PayloadCipher(Keyring([parse_key(SECRET_KEY)]))

    async def broken(*_: object) -> None:
        raise SecretError("the payload was changed, or stands in another place")

    monkeypatch.setattr(cipher, "decrypt", broken)
    accepting = JobIntake(
        node.database,
        jobs.lanes(node),
        node.runtime,
        allowed=(),
        check_names=jobs.names(node.outgoing.directory),
        cipher=cipher,
    )
    blind = OccurrenceIntake(
        JobOccurrences(accepting, jobs.lanes(node), ()),
        PaymentOccurrences(PaymentIntake(node.database, node.runtime), node.runtime),
        node.runtime,
    )
    await clock.advance(86_400)
    await drain(Expander(node.database, blind))
    became = []
    for one in (made, other):
        path = f"/schedules/{one.body['schedule_id']}/occurrences"
        became += (await sealing.call("GET", path)).body["occurrences"]
    assert [(row["status"] == "REFUSED", bool(row.get("job_id"))) for row in became] == [
        (True, False),
        (False, True),
    ]
    who = Identity(
        tenant_id=await node.database.writer.fetchval(
            "SELECT tenant_id FROM tenant WHERE name = $1", sealing.tenant
        ),
        tenant=sealing.tenant,
        key_id="k",
        scopes=frozenset({Scope.ADMIN}),
    )
    shown, _ = await ScheduleViews(node.database, cipher).page(who, None, 10, missed=False)
    assert len(shown) == 2
    assert PAYLOAD["name"] not in str(shown)
