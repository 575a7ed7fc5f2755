"""Rows of the outbox and seals that somebody forged: what is sealed twice or falsely is named."""

from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest

from faults.test_tamper import LENGTH, Crime, crime
from faults.test_tamper_facts import Facts, facts
from postdate.core.ids import bucket_of, new_id
from postdate.database.connection.clock import node_clock
from postdate.publisher import sealer
from postdate.publisher.verify import ChainFinding
from support.event import emit, new_event, seal_all

__all__ = ["crime", "facts"]

ADDRESS = "SELECT bucket, tenant_id, time, types, subjects, events, digests FROM outbox"
FORGE = "INSERT INTO outbox (bucket, tenant_id, time, types, subjects, events, digests) "


async def tell(crime: Crime, age_ms: int = 0) -> tuple[UUID, Any]:
    """Tell of something that may be older than it looks; give its event and its address."""
    unix_ms = crime.database.unix_ms() - age_ms
    subject = new_id(7, unix_ms)
    with patch.object(node_clock, "unix_ms", return_value=unix_ms + 1):
        [event_id] = await emit(crime.database, new_event(crime.tenant_id, subject))
    [row] = await crime.owner.fetch(f"{ADDRESS} WHERE $1 = ANY (subjects)", subject)
    return event_id, row


async def forge(crime: Crime, row: Any, **changed: Any) -> None:
    """Put an address into the outbox, as whoever may write there can."""
    values = {**row, "time": await crime.owner.fetchval("SELECT server_clock()"), **changed}
    await crime.owner.execute(f"{FORGE} VALUES ($1, $2, $3, $4, $5, $6, $7)", *values.values())


async def findings(crime: Crime, tenant_id: int | None = None) -> list[ChainFinding]:
    report = await crime.verify(anchored=False)
    mine = crime.tenant_id if tenant_id is None else tenant_id
    return [each for each in report.findings if each.tenant_id == mine]


async def test_what_is_sealed_twice_is_named(crime: Crime) -> None:
    event_id, row = await tell(crime)
    await seal_all(crime.database)
    await crime.tell(3)
    await forge(crime, row)
    await seal_all(crime.database)
    [found] = await findings(crime)
    assert (found.position, found.kind, found.event_id) == (LENGTH + 5, "repeated", event_id)


async def test_what_is_sealed_twice_long_after_is_named(
    crime: Crime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second seal may stand far behind the first."""
    monkeypatch.setattr(sealer, "LATE", timedelta(days=1))
    event_id, row = await tell(crime, age_ms=3_600_000)
    await seal_all(crime.database)
    await crime.tell(3)
    await forge(crime, row)
    await seal_all(crime.database)
    [found] = await findings(crime)
    assert (found.position, found.kind, found.event_id) == (LENGTH + 5, "repeated", event_id)


async def test_what_was_sealed_long_ago_is_not_sealed_again(crime: Crime) -> None:
    _, row = await tell(crime, age_ms=3_600_000)
    await seal_all(crime.database)
    _, late = await tell(crime, age_ms=3_500_000)
    await forge(crime, row)
    assert await seal_all(crime.database) == 2
    head = await crime.owner.fetchval(
        "SELECT position FROM chain WHERE tenant_id = $1", crime.tenant_id
    )
    assert head == LENGTH + 2, "what comes late for the first time is sealed"
    await forge(crime, late)
    await seal_all(crime.database)
    assert await findings(crime) == []
    assert await crime.owner.fetchval("SELECT count(*) FROM outbox") == 0


async def test_a_false_type_is_named(crime: Crime) -> None:
    event_id, row = await tell(crime)
    await crime.owner.execute("DELETE FROM outbox")
    await forge(crime, row, types=["payment.failed"])
    await seal_all(crime.database)
    found, *_ = await findings(crime)
    assert (found.position, found.kind, found.event_id) == (LENGTH + 1, "changed", event_id)


async def test_an_address_under_another_tenant_is_named(crime: Crime) -> None:
    event_id, row = await tell(crime)
    await crime.owner.execute("DELETE FROM outbox")
    await forge(crime, row, tenant_id=crime.tenant_id + 1000)
    await seal_all(crime.database)
    [stolen] = await findings(crime, crime.tenant_id + 1000)
    [left] = await findings(crime)
    assert (stolen.position, stolen.kind, stolen.event_id) == (1, "missing", event_id)
    assert (left.kind, left.event_id) == ("unsealed", event_id)


async def test_an_address_in_another_bucket_is_sealed_all_the_same(crime: Crime) -> None:
    _, row = await tell(crime)
    await crime.owner.execute("DELETE FROM outbox")
    await forge(crime, row, bucket=row["bucket"] + 1)
    await seal_all(crime.database)
    assert await findings(crime) == []


async def test_an_address_that_was_taken_away_is_missed(crime: Crime) -> None:
    event_id, _ = await tell(crime)
    await crime.owner.execute("DELETE FROM outbox")
    await seal_all(crime.database)
    [found] = await findings(crime)
    assert (found.kind, found.event_id) == ("unsealed", event_id)


@pytest.mark.parametrize("at", [1, 3, 5, 7])
async def test_a_second_seal_at_a_place_is_named(crime: Crime, at: int) -> None:
    """Readers would show what it holds: at the first place, inside a seal, at the last one."""
    await crime.do(
        "INSERT INTO seal SELECT bucket, tenant_id, $3, $2, sealed_at, decision, types, kinds, "
        "subjects, events, digests, previous, hash FROM seal WHERE tenant_id = $1 AND position = 5",
        at,
        new_id(crime.tenant_id % 64, crime.database.unix_ms()),
    )
    assert at in {each.position for each in await findings(crime)}


FALSE_ENDS = {"under another id": (1, 0), "as a failure": (0, 1)}


@pytest.mark.parametrize("name", FALSE_ENDS)
async def test_a_false_end_of_a_job_is_named(facts: Facts, name: str) -> None:
    """The digest is right, and the address is not."""
    other_id, failed = FALSE_ENDS[name]
    events = await facts.events("job.%")
    digest = await facts.owner.fetchval(
        "SELECT outcome_digest(o) FROM outcome o WHERE subject = $1", facts.job_id
    )
    event_id = new_id(1, facts.database.unix_ms()) if other_id else events["job.completed"]
    await facts.owner.execute(
        f"{FORGE} VALUES ($1, $2, server_clock(), $3, $4, $5, $6)",
        bucket_of(facts.job_id),
        facts.tenant_id,
        ["job.failed" if failed else "job.completed"],
        [facts.job_id],
        [event_id],
        digest,
    )
    await seal_all(facts.database)
    assert ("changed", event_id) in {(e.kind, e.event_id) for e in await facts.findings()}
