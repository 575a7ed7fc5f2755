"""Every metric is documented and served; a reading is bounded, and a scrape asks nobody."""

import re
from pathlib import Path

import asyncpg
import pytest

from conftest import Api, app_dsn
from postdate.database.connection import clock
from postdate.database.connection.database import Database
from postdate.database.connection.error import NoAnswerError
from postdate.database.embedded import Embedded
from postdate.job.spec.tally import CLASSES, failure_class
from postdate.key.authentication.identity import Identities
from postdate.monitor.view import bucket_cycle, vital_metrics, vitals
from postdate.node import http as edge
from postdate.node import role as stages
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from support.metric import scrape, value
from tidy.reference import metric_names

REFERENCE = Path(__file__).parents[2] / "docs/reference/metrics.md"


async def test_every_metric_of_a_server_is_documented_and_the_other_way_round(
    database: Database,
) -> None:
    settings = ProcessSettings(secret_key="5e" * 32)
    node = Node(settings=settings, database=database, roles=["api", *stages.STAGES])
    stages.loops(node)
    edge.build(node, Identities(database))
    suffix = {"counter": "_total", "info": "_info"}
    served = {f.name + suffix.get(f.type, "") for f in node.registry.collect()}
    await node.close()
    documented = set(re.findall(r"^\| `(\w+)` \|", REFERENCE.read_text(), re.MULTILINE))
    assert {name for name in served if name.startswith("postdate_")} == documented
    assert documented == metric_names().keys()


async def test_a_reading_tells_backlog_nodes_tables_and_audits(api: Api) -> None:
    for _ in range(3):
        body = {"destination": {"type": "worker"}, "lane": "slow", "delay_seconds": 0}
        assert (await api.call("POST", "/jobs", body)).status == 201
    await api.node.heartbeat.run_once()
    await api.node.lanes.refresh()
    await api.node.vitals.run_once()
    samples = await scrape(api)
    assert value(samples, "postdate_backlog", kind="pull") == 3
    assert value(samples, "postdate_backlog_oldest_seconds", kind="pull") > 0
    assert value(samples, "postdate_backlog", kind="payment") == 0
    assert value(samples, "postdate_nodes", role="api") == 1
    assert value(samples, "postdate_nodes", role="worker") == 0
    assert value(samples, "postdate_table_bytes", table="timer") > 0
    assert value(samples, "postdate_partition_weeks_ahead") >= 2
    assert value(samples, "postdate_vitals_age_seconds", part="pin") >= 0
    assert value(samples, "postdate_vitals_failed_total", part="backlog") == 0
    assert value(samples, "postdate_pool_connections", pool="writer", state="most") > 1


async def test_a_paused_lane_owes_nothing(api: Api) -> None:
    body = {"destination": {"type": "worker"}, "lane": "resting", "delay_seconds": 0}
    await api.call("POST", "/jobs", body)
    await api.node.vitals.run_once()
    before = value(await scrape(api), "postdate_backlog", kind="pull")
    await api.call("POST", "/lanes/resting/pause", {"note": "a rest"})
    await api.node.lanes.refresh()
    await api.node.vitals.run_once()
    samples = await scrape(api)
    assert value(samples, "postdate_backlog", kind="pull") == before - 1
    assert value(samples, "postdate_lanes_paused") >= 1


async def test_many_lanes_are_looked_at_in_turn(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_cycle, "MAX_LANE_BUCKETS", 70)
    for number in range(4):
        body = {"destination": {"type": "worker"}, "lane": f"turn-{number}", "delay_seconds": 0}
        await api.call("POST", "/jobs", body)
    watch = vitals.BacklogWatch(api.node.lanes)
    async with api.node.database.connection() as connection:
        known = []
        for _ in range(6):
            known = await watch.scan(connection, await clock.now(connection))
    own = {lane.lane_id for lane in api.node.lanes.by_id.values() if lane.name.startswith("turn-")}
    assert sum(row.overdue for _, row in known if row.lane_id in own) == 4


async def test_who_pins_the_oldest_snapshot_is_named(
    api: Api, server: Embedded, database_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vital_metrics, "PIN_SECONDS", 0.0)
    dsn = app_dsn(server, database_name)
    culprit = await asyncpg.connect(dsn, server_settings={"application_name": "nightly-report"})
    try:
        await culprit.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
        await api.node.vitals.run_once()
        found = [key for key in await scrape(api) if key[0] == "postdate_snapshot_pinned_seconds"]
    finally:
        await culprit.close()
    assert len(found) == 1
    labels = dict(found[0][1])
    assert labels["kind"] == "session"
    assert labels["name"].startswith("nightly-report pid ")


async def test_what_pull_workers_do_is_counted(api: Api) -> None:
    before = await scrape(api)
    retry = {"max_attempts": 2, "initial_seconds": 60}
    body = {"destination": {"type": "worker"}, "lane": "counted", "retry": retry}
    for _ in range(2):
        await api.call("POST", "/jobs", body)
    claimed = await api.call("POST", "/lanes/counted/claim", {"max": 2})
    first, second = claimed.body["leases"]
    await api.call("POST", f"/leases/{first['job_id']}/complete", {"token": first["token"]})
    await api.call("POST", f"/leases/{first['job_id']}/fail", {"token": 9, "error": "late"})
    failed = {"token": second["token"], "error": "no", "code": "mine"}
    await api.call("POST", f"/leases/{second['job_id']}/fail", failed)
    after = await scrape(api)

    def grown(name: str, **labels: str) -> float:
        return value(after, name, **labels) - value(before, name, **labels)

    assert grown("postdate_job_accepted_total", kind="pull") == 2
    assert grown("postdate_job_claimed_total", kind="pull") == 2
    assert grown("postdate_job_completed_total", kind="pull") == 1
    assert grown("postdate_job_retried_total", kind="pull", **{"class": "other"}) == 1
    # A stale report is no lost lease: whoever takes a job over counts it.
    assert grown("postdate_job_lease_lost_total", kind="pull") == 0
    assert grown("postdate_job_lateness_seconds_count", kind="pull") == 2


async def test_payments_taken_in_and_taken_back_are_counted(api: Api) -> None:
    for name in ("ann", "bob"):
        await api.call("POST", "/accounts", {"account_id": name})
    order = {"from_account_id": "ann", "to_account_id": "bob", "amount": 5, "delay_seconds": 60}
    refused = await api.call(
        "POST", "/payments/schedule", order, headers={"Idempotency-Key": "too-early"}
    )
    assert refused.status == 422
    opening = {"amount": 100, "reason": "opening"}
    await api.call(
        "POST", "/accounts/ann/adjustments", opening, headers={"Idempotency-Key": "open"}
    )
    made = await api.call("POST", "/payments/schedule", order, headers={"Idempotency-Key": "one"})
    await api.call("DELETE", f"/payments/{made.body['payment_id']}/cancel")
    samples = await scrape(api)
    assert value(samples, "postdate_payment_refused_total", code="insufficient_funds") >= 1
    assert value(samples, "postdate_payment_accepted_total", funding="hold") >= 1
    assert value(samples, "postdate_hold_amount_placed_total") >= 5
    assert value(samples, "postdate_hold_amount_released_total") >= 5
    assert value(samples, "postdate_payment_cancelled_total") >= 1


async def test_a_part_that_cannot_be_read_keeps_its_last_reading(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.node.vitals.run_once()

    async def silent(_: object) -> None:
        raise NoAnswerError

    monkeypatch.setitem(vitals.READS, "table", silent)
    await api.node.vitals.run_once()
    samples = await scrape(api)
    assert value(samples, "postdate_vitals_failed_total", part="table") == 1
    assert value(samples, "postdate_table_bytes", table="timer") > 0


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("http_503", "busy"),
        ("http_500", "server_error"),
        ("http_404", "refused"),
        ("dns_failed", "connect"),
        ("worker_lost", "lost"),
        ("whatever-a-worker-says", "other"),
        (None, "other"),
    ],
)
def test_the_class_of_a_failure_is_one_of_a_few(code: str | None, expected: str) -> None:
    assert failure_class(code) == expected
    assert expected in CLASSES
