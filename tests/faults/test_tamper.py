"""Tampering with events as the owner of the database, triggers off: found, and the row named."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import msgspec
import pytest

from conftest import app_dsn, owner_dsn
from postdate.core.ids import new_id
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.event.spec.chain import GENESIS, seal_hash
from postdate.publisher import anchor
from postdate.publisher.anchor import Anchorer, AnchorFile, AnchorLine, Anchors, collect
from postdate.publisher.verify import ChainFinding, ChainReport, verify
from support.event import emit, links_of, new_event, seal_all, seals

AT = datetime(2030, 1, 2, tzinfo=UTC)
LENGTH = 8


@dataclass
class Crime:
    """A tenant with a chain of its own, its anchor, and a connection that may do anything to it."""

    database: Database
    owner: asyncpg.Connection
    tenant_id: int
    file: AnchorFile

    async def do(self, statement: str, *arguments: Any) -> None:
        await self.owner.execute(statement, self.tenant_id, *arguments)

    async def event(self, position: int) -> UUID:
        found = [
            link.event_id
            for stored in await seals(self.database)
            for link in links_of(stored)
            if (link.tenant_id, link.position) == (self.tenant_id, position)
        ]
        return found[0]

    async def verify(self, *, anchored: bool = True) -> ChainReport:
        return await verify(self.database, collect(self.file.lines()) if anchored else {})

    async def finding(self, *, anchored: bool = True) -> ChainFinding:
        report = await self.verify(anchored=anchored)
        assert not report.ok
        mine, *_ = [each for each in report.findings if each.tenant_id == self.tenant_id]
        return mine

    async def looks_honest(self) -> bool:
        """Say whether the chain holds by itself, without its anchor."""
        report = await self.verify(anchored=False)
        return all(each.tenant_id != self.tenant_id for each in report.findings)

    async def tell(self, count: int) -> None:
        """Tell of so many things and put them into one seal."""
        for n in range(count):
            subject = new_id(n % 64, self.database.unix_ms())
            data = {"amount": n, "note": "ü"}
            await emit(self.database, new_event(self.tenant_id, subject, data=data))
        await seal_all(self.database)

    async def rehash(self, first: int) -> None:
        """Write digests and hashes that fit what is there now, as somebody would who knows how."""
        digest = GENESIS
        for stored in await seals(self.database):
            if stored.content.tenant_id != self.tenant_id:
                continue
            digests = b"".join(each or bytes(32) for each in stored.now)
            content = msgspec.structs.replace(stored.content, digests=digests)
            before, digest = digest, seal_hash(digest, content)
            if content.position >= first:
                await self.do(
                    "UPDATE seal SET digests = $3, previous = $4, hash = $5 "
                    "WHERE tenant_id = $1 AND position = $2",
                    content.position,
                    digests,
                    before,
                    digest,
                )
        await self.do("UPDATE chain SET hash = $2 WHERE tenant_id = $1", digest)


@pytest.fixture
async def crime(
    server: Embedded, database: Database, database_name: str, tenant_id: int, tmp_path: Path
) -> AsyncIterator[Crime]:
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    await owner.execute(
        "SET search_path = postdate; ALTER TABLE event DISABLE TRIGGER USER;"
        "ALTER TABLE seal DISABLE TRIGGER USER"
    )
    file = AnchorFile(tmp_path / "anchor.jsonl")
    made = Crime(database, owner, tenant_id, file)
    # The tests speak of positions: what the tenant itself told before stands first.
    await seal_all(database)
    await owner.execute("DELETE FROM seal WHERE tenant_id = $1", tenant_id)
    await owner.execute("DELETE FROM chain WHERE tenant_id = $1", tenant_id)
    await owner.execute("DELETE FROM event WHERE tenant_id = $1", tenant_id)
    await made.tell(LENGTH // 2)
    await made.tell(LENGTH // 2)
    await Anchorer(database, file).run_once()
    yield made
    await owner.close()


async def test_an_honest_chain_is_found_honest(crime: Crime) -> None:
    report = await crime.verify()
    assert [each for each in report.findings if each.tenant_id == crime.tenant_id] == []
    assert report.links >= LENGTH
    assert report.anchored >= 1


@pytest.mark.parametrize(
    "change",
    [
        "data = '{\"amount\": 1000000}'",
        "data = NULL",
        "actor = 'somebody'",
        "actor = NULL",
        "time = time + interval '1 microsecond'",
        "type = 'job.cancelled'",
    ],
)
async def test_an_edited_event_is_named(crime: Crime, change: str) -> None:
    event_id = await crime.event(6)
    await crime.do(f"UPDATE event SET {change} WHERE tenant_id = $1 AND event_id = $2", event_id)
    found = await crime.finding(anchored=False)
    assert (found.position, found.kind, found.event_id) == (6, "changed", event_id)


async def test_an_event_given_to_another_tenant_is_named(crime: Crime) -> None:
    event_id = await crime.event(4)
    await crime.do(
        "UPDATE event SET tenant_id = tenant_id + 1000 WHERE tenant_id = $1 AND event_id = $2",
        event_id,
    )
    found = await crime.finding(anchored=False)
    assert (found.position, found.kind, found.event_id) == (4, "missing", event_id)


@pytest.mark.parametrize(
    "change",
    [
        "hash = sha256('x')",
        "previous = sha256('x')",
        "types = ARRAY['x']",
        "digests = overlay(digests placing sha256('x') from 33)",
        "subjects[2] = subjects[3]",
        "events[2] = events[3]",
        "kinds = kinds[1:3] || 2::smallint, types = types || 'job.completed'::text",
    ],
)
async def test_an_edited_seal_is_named(crime: Crime, change: str) -> None:
    await crime.do(f"UPDATE seal SET {change} WHERE tenant_id = $1 AND position = 5")
    found = await crime.finding(anchored=False)
    assert found.position in {5, 6, 8}, "the seal, or the event that it has another type for"
    assert found.kind in {"changed", "missing"}


async def test_a_seal_given_another_position_is_named(crime: Crime) -> None:
    await crime.do("UPDATE seal SET position = 1000005 WHERE tenant_id = $1 AND position = 5")
    found = await crime.finding(anchored=False)
    assert (found.position, found.kind) == (5, "head")


async def test_a_deleted_event_is_named(crime: Crime) -> None:
    event_id = await crime.event(3)
    await crime.do("DELETE FROM event WHERE tenant_id = $1 AND event_id = $2", event_id)
    found = await crime.finding(anchored=False)
    assert (found.position, found.kind, found.event_id) == (3, "missing", event_id)


async def test_a_deleted_seal_is_named_by_its_first_event(crime: Crime) -> None:
    event_id = await crime.event(1)
    await crime.do("DELETE FROM seal WHERE tenant_id = $1 AND position = 1")
    found = await crime.finding(anchored=False)
    assert (found.position, found.kind, found.event_id) == (1, "missing", event_id)


async def test_a_seal_deleted_with_its_events_is_named_by_its_place(crime: Crime) -> None:
    for position in range(1, 5):
        event_id = await crime.event(position)
        await crime.do("DELETE FROM event WHERE tenant_id = $1 AND event_id = $2", event_id)
    await crime.do("DELETE FROM seal WHERE tenant_id = $1 AND position = 1")
    found = await crime.finding(anchored=False)
    assert (found.position, found.kind, found.event_id) == (1, "missing", None)


async def test_swapped_seals_are_named(crime: Crime) -> None:
    await crime.do(
        "UPDATE seal a SET position = b.position FROM seal b "
        "WHERE a.tenant_id = $1 AND b.tenant_id = $1 "
        "AND (a.position, b.position) IN ((1, 5), (5, 1))"
    )
    found = await crime.finding(anchored=False)
    assert (found.position, found.kind) == (1, "changed")


async def test_a_tail_that_is_cut_off_is_missed_by_the_anchor(crime: Crime) -> None:
    """Events, seals and head are all set back, as if the last four had never been."""
    for position in range(5, 9):
        event_id = await crime.event(position)
        await crime.do("DELETE FROM event WHERE tenant_id = $1 AND event_id = $2", event_id)
    await crime.do("DELETE FROM seal WHERE tenant_id = $1 AND position = 5")
    await crime.do(
        "UPDATE chain c SET position = 4, hash = s.hash FROM seal s "
        "WHERE c.tenant_id = $1 AND s.tenant_id = $1 AND s.position = 1"
    )
    assert await crime.looks_honest()
    found = await crime.finding()
    assert (found.position, found.kind) == (5, "cut_off")
    await crime.tell(4)
    found = await crime.finding()
    assert (found.position, found.kind) == (1, "rewritten"), "the places were taken by others"


async def test_a_chain_that_is_gone_altogether_is_missed_by_the_anchor(crime: Crime) -> None:
    for table in ("event", "seal", "chain"):
        await crime.do(f"DELETE FROM {table} WHERE tenant_id = $1")
    assert await crime.looks_honest()
    found = await crime.finding()
    assert (found.position, found.kind) == (1, "cut_off")


async def test_a_head_that_was_set_back_is_found(crime: Crime) -> None:
    await crime.do("UPDATE chain SET hash = sha256('x') WHERE tenant_id = $1")
    assert (await crime.finding(anchored=False)).kind == "head"


async def test_a_chain_that_was_hashed_anew_is_found_by_the_anchor(crime: Crime) -> None:
    await crime.tell(2)
    await Anchorer(crime.database, crime.file).run_once()
    event_id = await crime.event(9)
    await crime.do("UPDATE event SET actor = 'x' WHERE tenant_id = $1 AND event_id = $2", event_id)
    await crime.rehash(9)
    assert await crime.looks_honest()
    found = await crime.finding()
    assert (found.position, found.kind) == (9, "rewritten"), "after the last anchor that holds"


async def test_an_event_slipped_in_is_named(crime: Crime) -> None:
    event_id = new_id(7, crime.database.unix_ms())
    await crime.do(
        "INSERT INTO event (bucket, tenant_id, subject, event_id, type) "
        "VALUES (7, $1, $2, $2, 'job.completed')",
        event_id,
    )
    found = await crime.finding(anchored=False)
    assert (found.kind, found.event_id) == ("unsealed", event_id)


async def test_detached_weeks_of_seals_leave_a_trusted_start(crime: Crime) -> None:
    """What was detached is not missing, and the rest of the chain is checked as before."""
    events = [await crime.event(position) for position in range(1, 5)]
    last = await crime.owner.fetchval(
        "SELECT seal_id FROM seal WHERE tenant_id = $1 AND position = 1", crime.tenant_id
    )
    end = await crime.owner.fetchrow(
        "SELECT bucket, tenant_id, position + cardinality(kinds) - 1, hash FROM seal "
        "WHERE tenant_id = $1 AND position = 1",
        crime.tenant_id,
    )
    assert end is not None
    await crime.do("DELETE FROM seal WHERE tenant_id = $1 AND position = 1")
    await crime.do("DELETE FROM event WHERE tenant_id = $1 AND event_id = ANY ($2)", events)
    floor = UUID(int=max(last, *events).int + 1)
    assert not await crime.looks_honest()
    await crime.owner.execute(
        "INSERT INTO history (partition, parent, from_id, to_id) "
        "VALUES ('seal_old', 'seal', $1, $2), ('event_old', 'event', $1, $2)",
        UUID(int=0),
        floor,
    )
    assert not await crime.looks_honest(), "what is left must continue something"
    await crime.owner.execute("INSERT INTO chain_start VALUES ($1, $2, $3, $4)", *end)
    assert await crime.looks_honest()
    event_id = await crime.event(7)
    await crime.do("UPDATE event SET actor = 'x' WHERE tenant_id = $1 AND event_id = $2", event_id)
    found = await crime.finding(anchored=False)
    await crime.owner.execute("DELETE FROM history")
    assert (found.position, found.kind, found.event_id) == (7, "changed", event_id)


async def test_the_application_may_do_none_of_this(
    server: Embedded, database_name: str, crime: Crime
) -> None:
    await crime.owner.execute(
        "ALTER TABLE event ENABLE TRIGGER USER; ALTER TABLE seal ENABLE TRIGGER USER"
    )
    login = await asyncpg.connect(app_dsn(server, database_name))
    await login.execute("SET ROLE postdate_writer; SET search_path = postdate")
    for statement in (
        "UPDATE seal SET position = position + 1",
        "DELETE FROM seal",
        "TRUNCATE seal",
        "DELETE FROM event",
        "DELETE FROM outbox_lock",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await login.execute(statement)
    await login.close()
    for statement in ("UPDATE seal SET position = 9", "DELETE FROM event", "TRUNCATE seal"):
        with pytest.raises(asyncpg.PostgresError, match="facts are only ever inserted"):
            await crime.owner.execute(statement)


def test_a_torn_line_spoils_nothing(tmp_path: Path) -> None:
    file = AnchorFile(tmp_path / "deep" / "anchor.jsonl")
    one, other = (AnchorLine(AT, [(0, seq, "aa")]) for seq in (1, 2))
    file.append(one)
    with file.path.open("ab") as torn:
        torn.write(b'{"time":"2030')
    file.append(other)
    assert list(file.lines()) == [one, other]
    assert file.path.stat().st_mode & 0o077 == 0


async def test_the_anchor_grows_only_with_the_chains(crime: Crime) -> None:
    anchorer = Anchorer(crime.database, crime.file)
    await anchorer.run_once()
    assert len(list(crime.file.lines())) == 1
    await crime.tell(1)
    await anchorer.finish()
    assert len(list(crime.file.lines())) == 2


async def test_an_anchor_that_cannot_be_written_stops_nothing(crime: Crime, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    await Anchorer(crime.database, AnchorFile(tmp_path / "file" / "anchor")).run_once()


def test_of_many_anchors_enough_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchor, "MAX_REMEMBERED", 10)
    kept = Anchors()
    for seq in range(1, 101):
        kept.add(seq, f"{seq}", AT)
    assert len([seq for seq in range(1, 100) if kept.find(seq)]) > 3
    assert kept.find(100) == "100"
