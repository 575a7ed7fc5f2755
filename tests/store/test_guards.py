"""What must hold no matter who writes: rights, row-level security, facts, sums."""

from uuid import UUID

import asyncpg
import pytest

from conftest import admin, owner_dsn
from postdate.core.ids import new_id
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.connection.error import DatabaseError, PermissionDeniedError
from postdate.database.embedded import Embedded
from postdate.tenant.store import tenant
from postdate.words.error import StartError

SHARED = {
    "audit_run",
    "clock_watch",
    "proof_round",
    "history",
    "outbox_lock",
    "halt_lock",
    "named_lock",
    "wakeup_channel",
    "birthplace",
    "migration",
    "function_file",
    "client_schema",
    "setting_default",
    "node",
    "permit",
    "lane_key",
    "permit_scope",
    "schedule_tzdata",
    "secret_key",
    "receipt_key",
}
"""Tables that belong to no tenant."""

CHECK_VIOLATION = "23514"


async def test_every_table_of_tenants_forces_row_level_security(
    server: Embedded, database_name: str
) -> None:
    connection = await asyncpg.connect(owner_dsn(server, database_name))
    rows = await connection.fetch(
        """SELECT relname, relrowsecurity AND relforcerowsecurity AS forced, relispartition,
                  EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid
                             AND attname = 'tenant_id') AS has_tenant,
                  EXISTS (SELECT FROM pg_policy WHERE polrelid = c.oid
                             AND polname = 'reader_own') AS has_policy
             FROM pg_class c WHERE relnamespace = 'postdate'::regnamespace
              AND relkind IN ('r', 'p')"""
    )
    await connection.close()
    tenants = [row for row in rows if row["relname"] not in SHARED]
    assert len(tenants) > 10
    assert [row["relname"] for row in tenants if not row["has_tenant"]] == []
    assert [row["relname"] for row in tenants if not row["forced"]] == []
    parents = [row for row in tenants if not row["relispartition"]]
    assert [row["relname"] for row in parents if not row["has_policy"]] == []


async def test_a_reader_sees_its_tenant_and_cannot_write(database: Database) -> None:
    async with database.write() as connection:
        seen = await tenant.create(connection, "seen")
        await tenant.create(connection, "unseen")
    assert seen is not None
    async with database.read(seen) as connection:
        assert [row["name"] for row in await connection.fetch("SELECT name FROM tenant")] == [
            "seen"
        ]
        with pytest.raises(DatabaseError):
            await connection.execute("INSERT INTO tenant (name) VALUES ('x')")
    assert await database.reader.fetch("SELECT name FROM tenant") == []


async def test_the_tenant_is_gone_with_its_transaction_even_after_an_error(
    database: Database, tenant_id: int
) -> None:
    for _ in range(20):
        with pytest.raises(DatabaseError):
            async with database.read(tenant_id) as connection:
                await connection.execute("SELECT * FROM nothing_here")
        assert await database.reader.fetchval("SELECT current_tenant()") is None


@pytest.mark.parametrize(
    "statement", ["UPDATE event SET type = 'x'", "DELETE FROM event", "TRUNCATE event"]
)
async def test_facts_cannot_be_changed(
    database: Database, server: Embedded, database_name: str, tenant_id: int, statement: str
) -> None:
    async with database.write() as connection:
        await connection.execute(
            "INSERT INTO event (bucket, tenant_id, subject, event_id, type) "
            "VALUES (1, $1, $2, $2, 'x')",
            tenant_id,
            new_id(1, database.unix_ms()),
        )
    with pytest.raises(PermissionDeniedError):
        await database.writer.execute(statement)
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    with pytest.raises(asyncpg.PostgresError, match="facts are only ever inserted"):
        await owner.execute(f"SET search_path = postdate; {statement}")
    await owner.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"amount": 0},
        {"amount": -5},
        {"to_account": "a"},
        {"to_bucket": 64},
        {"from_version": 0},
        {"to_version": 0},
        {"payment_id": UUID(int=1)},
        {"reason": None},
    ],
    ids=lambda wrong: "{}={}".format(*next(iter(wrong.items()))),
)
async def test_what_is_no_transfer_is_refused(
    database: Database, tenant_id: int, wrong: dict[str, object]
) -> None:
    right: dict[str, object] = {
        "bucket": 1, "to_bucket": 2, "tenant_id": tenant_id,
        "transfer_id": new_id(1, database.unix_ms()), "amount": 5, "from_account": "a",
        "from_balance": -5, "from_version": 1, "to_account": "b", "to_balance": 5, "to_version": 1,
        "payment_id": None, "reason": "x",
    }  # fmt: skip
    values = ", ".join(f"${number}" for number in range(1, len(right) + 1))
    insert = f"INSERT INTO transfer ({', '.join(right)}) VALUES ({values})"
    with pytest.raises(DatabaseError) as caught:
        await database.writer.execute(insert, *(right | wrong).values())
    assert caught.value.sqlstate == CHECK_VIOLATION
    await database.writer.execute(insert, *right.values())
    sums = await database.writer.fetchrow(
        "SELECT count(*), sum(amount) FROM entry WHERE tenant_id = $1", tenant_id
    )
    assert sums is not None
    assert tuple(sums) == (2, 0)


@pytest.mark.parametrize(
    ("right", "says"), [("SUPERUSER", "superuser"), ("BYPASSRLS", "bypasses row-level security")]
)
async def test_a_role_that_could_do_more_is_refused(
    server: Embedded, database_name: str, right: str, says: str
) -> None:
    dsn = server.credentials.login.app_dsn().replace("/postdate?", f"/{database_name}?")
    await admin(server, f"ALTER ROLE postdate_reader {right}")
    try:
        with pytest.raises(StartError, match=says):
            await opening.connect(dsn)
    finally:
        await admin(server, f"ALTER ROLE postdate_reader NO{right}")


async def test_history_finds_its_week_and_a_wrong_clock_finds_the_default(
    database: Database, tenant_id: int
) -> None:
    for days, home in ((0, "event_20"), (-3650, "event_default")):
        where = await database.writer.fetchval(
            "INSERT INTO event (bucket, tenant_id, subject, event_id, type) "
            "VALUES (3, $1, $2, $2, 'x') RETURNING tableoid::regclass::text",
            tenant_id,
            new_id(3, database.unix_ms() + days * 86_400_000),
        )
        assert where.startswith(home)


async def test_functions_of_busy_statements_are_inlined(
    server: Embedded, database_name: str
) -> None:
    """One that the planner cannot inline is run by a plan of its own for each row."""
    connection = await asyncpg.connect(owner_dsn(server, database_name))
    await connection.execute("SET search_path = postdate")
    rows = await connection.fetch(
        """EXPLAIN (VERBOSE, COSTS OFF)
           SELECT outcome_event_id(o.subject, o.finished_at), outcome_digest(o),
                  bucket_of(o.subject), job_digest(j), payment_digest(p), claim_token(1)
             FROM outcome o, job j, payment p"""
    )
    await connection.close()
    plan = "\n".join(row[0] for row in rows)
    names = ("event_id", "digest", "bucket_of", "claim_token")
    assert "record_send(" in plan
    assert [name for name in names if f"{name}(" in plan] == []
