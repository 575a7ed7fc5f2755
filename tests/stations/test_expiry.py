"""Expired jobs end by themselves, and hide no fresh job from a worker."""

import asyncio
from datetime import datetime
from uuid import uuid4

import pytest

from conftest import Clock
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.job.spec.tally import Tally
from postdate.lease.change.lease import ClaimAsk, LeaseClaims
from postdate.worker.expirer import Expirer
from support.worker import OwnLanes, add_jobs, make_lane, one


def ask(tenant_id: int) -> ClaimAsk:
    return ClaimAsk(
        tenant_id=tenant_id,
        lane="mail",
        holder=uuid4(),
        max_leases=1,
        lease_seconds=30.0,
        wait_seconds=0.0,
        gone=asyncio.Event(),
    )


@pytest.mark.parametrize("way", ["expires_at", "max_age"])
async def test_a_claim_of_one_returns_the_fresh_job_behind_200_expired_ones(
    database: Database, tenant_id: int, clock: Clock, way: str
) -> None:
    lane = await make_lane(database, tenant_id, "mail", "pull")
    if way == "expires_at":
        await add_jobs(database, lane, 200, expires_in=4)
    else:
        await add_jobs(database, lane, 200, retry={"max_age_seconds": 4})
    await clock.advance(15)
    [fresh] = await add_jobs(database, lane)
    lanes = OwnLanes(database, [tenant_id])
    await lanes.refresh()
    claims = LeaseClaims(database, lanes, Settings(), Tally())
    [leased] = await claims.claim(ask(tenant_id))
    assert leased.delivery.job_id == fresh


async def test_expired_jobs_of_a_lane_without_workers_end_by_themselves(
    database: Database, tenant_id: int, clock: Clock
) -> None:
    lanes = OwnLanes(database, [tenant_id])
    pull = await make_lane(database, tenant_id, "mail", "pull")
    push = await make_lane(database, tenant_id, "paused")
    expired = await add_jobs(database, pull, 20, expires_in=4)
    expired += await add_jobs(database, push, 3, retry={"max_age_seconds": 4})
    await clock.advance(15)
    [fresh] = await add_jobs(database, pull)
    tallies = {"push": Tally(), "pull": Tally()}
    await lanes.refresh()
    await Expirer(database, lanes, Settings(), tallies, uuid4()).run_once(1000)
    outcomes = [await one(database, "outcome", job_id) for job_id in expired]
    assert {each["status"] for each in outcomes} == {"FAILED"}
    assert {each["code"] for each in outcomes} == {"expired", "too_old"}
    timer = await one(database, "timer", fresh)
    assert timer["claimed_at"] is None
    assert isinstance(timer["due_at"], datetime)
