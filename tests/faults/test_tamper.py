"""Tampering with events as the owner of the database, triggers off: found, and the row named."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from conftest import app_dsn, owner_dsn
from event_ground import emit, links, new_event, seal_all
from postdate.model.chain import GENESIS, link_hash
from postdate.model.ids import new_id
from postdate.publisher import anchor
from postdate.publisher.anchor import Anchorer, AnchorFile, Anchors, Line, collect
from postdate.publisher.verify import Finding, Report, verify
from postdate.store.database import Database
from postdate.store.embedded import Embedded

AT = datetime(2030, 1, 2, tzinfo=UTC)
LENGTH = 8
_buckets = itertools.count()


@dataclass
class Crime:
    """A chain of its own, its anchor, and a connection that may do anything to it."""

    database: Database
    owner: asyncpg.Connection
    tenant_id: int
    bucket: int
    file: AnchorFile

    async def do(self, statement: str, *arguments: Any) -> None:
        await self.owner.execute(statement, self.bucket, *arguments)

    async def event(self, seq: int) -> UUID:
        found: UUID = await self.owner.fetchval(
            "SELECT event_id FROM event_seal WHERE bucket = $1 AND seq = $2", self.bucket, seq
        )
        return found

    async def verify(self, *, anchored: bool = True) -> Report:
        return await verify(self.database, collect(self.file.lines()) if anchored else {})

    async def finding(self, *, anchored: bool = True) -> Finding:
        report = await self.verify(anchored=anchored)
        assert not report.ok
        [mine] = [each for each in report.findings if each.bucket == self.bucket]
        return mine

    async def looks_honest(self) -> bool:
        """Say whether the chain holds by itself, without its anchor."""
        report = await self.verify(anchored=False)
        return all(each.bucket != self.bucket for each in report.findings)

    async def tell(self, count: int) -> None:
        for n in range(count):
            subject = new_id(self.bucket, self.database.unix_ms())
            data = {"amount": n, "note": "ü"}
            await emit(self.database, new_event(self.database, self.tenant_id, subject, data=data))
        await seal_all(self.database)

    async def rehash(self, first: int) -> None:
        """Write hashes that fit what is there now, as somebody would who knows how."""
        digest = GENESIS
        for link, _ in await links(self.database):
            if link.bucket != self.bucket:
                continue
            digest = link_hash(digest, link)
            if link.seq >= first:
                await self.do(
                    "UPDATE event_seal SET hash = $3 WHERE bucket = $1 AND seq = $2",
                    link.seq,
                    digest,
                )
        await self.do("UPDATE event_chain SET hash = $2 WHERE bucket = $1", digest)


@pytest.fixture
async def crime(
    server: Embedded, database: Database, database_name: str, tenant_id: int, tmp_path: Path
) -> AsyncIterator[Crime]:
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    await owner.execute(
        "SET search_path = postdate; ALTER TABLE event DISABLE TRIGGER USER;"
        "ALTER TABLE event_seal DISABLE TRIGGER USER"
    )
    file = AnchorFile(tmp_path / "anchor.jsonl")
    made = Crime(database, owner, tenant_id, next(_buckets), file)
    await made.tell(LENGTH)
    await Anchorer(database, file).run_once()
    yield made
    await owner.close()


async def test_an_honest_chain_is_found_honest(crime: Crime) -> None:
    report = await crime.verify()
    assert [each for each in report.findings if each.bucket == crime.bucket] == []
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
        "tenant_id = tenant_id + 1000",
    ],
)
async def test_an_edited_event_is_named(crime: Crime, change: str) -> None:
    event_id = await crime.event(4)
    await crime.do(f"UPDATE event SET {change} WHERE bucket = $1 AND event_id = $2", event_id)
    found = await crime.finding(anchored=False)
    assert (found.seq, found.kind, found.event_id) == (4, "changed", event_id)


@pytest.mark.parametrize(
    "change",
    ["hash = sha256('x')", "position = position + 1000000", "type = 'x'", "tenant_id = 77777"],
)
async def test_an_edited_link_is_named(crime: Crime, change: str) -> None:
    event_id = await crime.event(5)
    await crime.do(f"UPDATE event_seal SET {change} WHERE bucket = $1 AND event_id = $2", event_id)
    found = await crime.finding(anchored=False)
    assert (found.seq, found.kind, found.event_id) == (5, "changed", event_id)


async def test_a_deleted_event_is_named(crime: Crime) -> None:
    event_id = await crime.event(3)
    await crime.do("DELETE FROM event WHERE bucket = $1 AND event_id = $2", event_id)
    found = await crime.finding(anchored=False)
    assert (found.seq, found.kind, found.event_id) == (3, "missing", event_id)


async def test_a_deleted_link_is_named(crime: Crime) -> None:
    event_id = await crime.event(3)
    await crime.do("DELETE FROM event_seal WHERE bucket = $1 AND event_id = $2", event_id)
    found = await crime.finding(anchored=False)
    assert (found.seq, found.kind, found.event_id) == (3, "missing", event_id)


async def test_an_event_deleted_with_its_link_is_named_by_its_place(crime: Crime) -> None:
    event_id = await crime.event(3)
    for table in ("event", "event_seal"):
        await crime.do(f"DELETE FROM {table} WHERE bucket = $1 AND event_id = $2", event_id)
    found = await crime.finding(anchored=False)
    assert (found.seq, found.kind, found.event_id) == (3, "missing", None)


@pytest.mark.parametrize("column", ["seq", "position"])
async def test_swapped_links_are_named(crime: Crime, column: str) -> None:
    await crime.do(
        f"UPDATE event_seal a SET {column} = b.{column} FROM event_seal b "
        "WHERE a.bucket = $1 AND b.bucket = $1 AND (a.seq, b.seq) IN ((3, 6), (6, 3))"
    )
    found = await crime.finding(anchored=False)
    assert (found.seq, found.kind) == (3, "changed")


async def test_a_link_that_stands_twice_is_named(crime: Crime) -> None:
    await crime.do("UPDATE event_seal SET seq = 4 WHERE bucket = $1 AND seq = 5")
    found = await crime.finding(anchored=False)
    assert found.seq == 4


async def test_a_tail_that_is_cut_off_is_missed_by_the_anchor(crime: Crime) -> None:
    """Events, links and head are all set back, as if the last three had never been."""
    await crime.do(
        "DELETE FROM event e USING event_seal s WHERE e.bucket = $1 AND s.bucket = $1 "
        "AND s.event_id = e.event_id AND s.seq > 5"
    )
    await crime.do("DELETE FROM event_seal WHERE bucket = $1 AND seq > 5")
    await crime.do(
        "UPDATE event_chain c SET seq = 5, hash = s.hash FROM event_seal s "
        "WHERE c.bucket = $1 AND s.bucket = $1 AND s.seq = 5"
    )
    assert all(
        each.bucket != crime.bucket for each in (await crime.verify(anchored=False)).findings
    )
    found = await crime.finding()
    assert (found.seq, found.kind) == (6, "cut_off")
    await crime.tell(4)
    found = await crime.finding()
    assert (found.seq, found.kind) == (1, "rewritten"), "the places were taken by others"


async def test_a_head_that_was_set_back_is_found(crime: Crime) -> None:
    await crime.do("UPDATE event_chain SET hash = sha256('x') WHERE bucket = $1")
    assert (await crime.finding(anchored=False)).kind == "head"


async def test_a_chain_that_was_hashed_anew_is_found_by_the_anchor(crime: Crime) -> None:
    await crime.tell(2)
    await Anchorer(crime.database, crime.file).run_once()
    event_id = await crime.event(9)
    await crime.do("UPDATE event SET actor = 'x' WHERE bucket = $1 AND event_id = $2", event_id)
    await crime.rehash(9)
    assert all(
        each.bucket != crime.bucket for each in (await crime.verify(anchored=False)).findings
    )
    found = await crime.finding()
    assert (found.seq, found.kind) == (9, "rewritten"), "after the last anchor that holds"


async def test_an_event_slipped_in_is_named(crime: Crime) -> None:
    event_id = new_id(crime.bucket, crime.database.unix_ms())
    await crime.do(
        "INSERT INTO event (bucket, tenant_id, subject, event_id, type, xid) "
        "VALUES ($1, $2, $3, $3, 'job.completed', '3')",
        crime.tenant_id,
        event_id,
    )
    found = await crime.finding(anchored=False)
    assert (found.kind, found.event_id) == ("unsealed", event_id)


async def test_the_application_may_do_none_of_this(
    server: Embedded, database_name: str, crime: Crime
) -> None:
    await crime.owner.execute(
        "ALTER TABLE event ENABLE TRIGGER USER; ALTER TABLE event_seal ENABLE TRIGGER USER"
    )
    login = await asyncpg.connect(app_dsn(server, database_name))
    await login.execute("SET ROLE postdate_writer; SET search_path = postdate")
    for statement in (
        "UPDATE event_seal SET seq = seq + 1",
        "DELETE FROM event_seal",
        "TRUNCATE event_seal",
        "DELETE FROM event",
        "DELETE FROM event_chain",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await login.execute(statement)
    await login.close()
    for statement in ("UPDATE event_seal SET seq = 9", "DELETE FROM event", "TRUNCATE event_seal"):
        with pytest.raises(asyncpg.PostgresError, match="facts are only ever inserted"):
            await crime.owner.execute(statement)


def test_a_torn_line_spoils_nothing(tmp_path: Path) -> None:
    file = AnchorFile(tmp_path / "deep" / "anchor.jsonl")
    assert file.last() is None
    one, other = (Line(AT, [(0, seq, "aa")]) for seq in (1, 2))
    file.append(one)
    with file.path.open("ab") as torn:
        torn.write(b'{"time":"2030')
    assert file.last() == one
    file.append(other)
    assert (list(file.lines()), file.last()) == ([one, other], other)
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
    monkeypatch.setattr(anchor, "REMEMBER_MOST", 10)
    kept = Anchors()
    for seq in range(1, 101):
        kept.add(seq, f"{seq}", AT)
    assert len([seq for seq in range(1, 100) if kept.get(seq)]) > 3
    assert kept.get(100) == "100"
