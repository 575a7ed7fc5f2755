from datetime import UTC, datetime
from uuid import UUID

from postdate.account.store.account import key_of
from postdate.core.ids import new_id
from postdate.database.connection.database import Database
from postdate.database.connection.pooled import PooledConnection
from postdate.database.connection.query import query
from postdate.payment.store import payment as payment_store
from postdate.payment.store import payment_change
from postdate.payment.store.payment import NewPayment, PaymentSpan

LAST = UUID(int=2**128 - 1)
DUE = datetime(2030, 1, 1, tzinfo=UTC)


async def _insert(database: Database, tenant_id: int, payer: str, payee: str) -> UUID:
    bucket = key_of(tenant_id, payer).bucket
    payment_id = new_id(bucket, database.unix_ms())
    row = NewPayment(bucket, tenant_id, payment_id, payer, payee, 5, DUE, hold=False)
    async with database.write() as connection:
        await payment_store.accept(connection, [row])
    return payment_id


async def test_payments_are_found_by_id_tenant_and_account(
    database: Database, tenant_id: int
) -> None:
    pairs = [("a", "b"), ("b", "c"), ("c", "a"), ("b", "d")]
    ids = [await _insert(database, tenant_id, *pair) for pair in pairs]
    span = PaymentSpan(tenant_id, LAST, 3)
    async with database.read(tenant_id) as connection:
        newest = await payment_store.newest(connection, span)
        of_a = await payment_store.of_account(connection, span, key_of(tenant_id, "a"))
        rows = await payment_store.load(connection, tenant_id, ids)
    assert [row.payment_id for row in newest.rows] == sorted(ids, reverse=True)[:3]
    assert [row.payment_id for row in of_a.rows] == sorted([ids[0], ids[2]], reverse=True)
    assert (newest.edge, of_a.edge) == (sorted(ids)[1], None)
    assert [row.payment_id for row in rows] == sorted(ids, reverse=True)
    assert {(row.timer_due_at, row.status) for row in rows} == {(DUE, None)}


async def test_a_payment_of_another_tenant_is_not_even_locked(
    database: Database, tenant_id: int
) -> None:
    payment_id = await _insert(database, tenant_id, "a", "b")
    async with database.write() as connection:
        assert await payment_change.lock(connection, payment_id, tenant_id + 1) is None
        assert await payment_change.lock(connection, payment_id, tenant_id) is not None


async def test_a_reader_sees_no_payment_of_another_tenant(
    database: Database, tenant_id: int
) -> None:
    payment_id = await _insert(database, tenant_id, "a", "b")
    async with database.read(tenant_id + 1000) as connection:
        # Even when the statement itself asks for the other tenant.
        assert await payment_store.load(connection, tenant_id, [payment_id]) == []
        seen = await payment_store.newest(connection, PaymentSpan(tenant_id, LAST, 9))
    assert (seen.rows, seen.edge) == ([], None)


async def test_a_statement_of_its_own_sees_its_tenant_and_leaves_none_behind(
    database: Database, tenant_id: int
) -> None:
    payment_id = await _insert(database, tenant_id, "a", "b")

    async def read(of_tenant: int) -> tuple[int, int]:
        async with database.reader.acquire() as lent:
            connection = PooledConnection(lent)
            rows = await payment_store.load(connection, of_tenant, [payment_id])
            return len(rows), await connection.fetchval("SELECT count(*) FROM payment")

    assert await read(tenant_id) == (1, 0)
    assert await read(tenant_id + 1000) == (0, 0)


async def test_tried_and_ended_payments_are_read_like_waiting_ones(
    database: Database, tenant_id: int
) -> None:
    ids = [await _insert(database, tenant_id, "a", "b") for _ in range(5)]
    _, tried, ended, retried, lost = ids
    async with database.connection() as connection:
        await connection.executemany(
            "UPDATE timer SET token = 1 WHERE subject = $1", [(tried,), (retried,)]
        )
        await connection.executemany(
            """INSERT INTO attempt (bucket, tenant_id, subject, attempt, status, due_at, started_at,
                                    finished_at, code, error)
               SELECT bucket, tenant_id, payment_id, 1, 'FAILED', due_at, clock(), clock(), 'c', 'e'
                 FROM payment WHERE payment_id = $1""",
            [(tried,), (retried,)],
        )
        await connection.executemany(
            "DELETE FROM timer WHERE subject = $1", [(ended,), (retried,), (lost,)]
        )
        await connection.executemany(
            """INSERT INTO outcome (bucket, tenant_id, subject, attempt, status, due_at,
                                    finished_at)
               SELECT bucket, tenant_id, payment_id, $2, 'CANCELLED', due_at, clock()
                 FROM payment WHERE payment_id = $1""",
            [(ended, 1), (retried, 2)],
        )
    async with database.read(tenant_id) as connection:
        rows = {row.payment_id: row for row in await payment_store.load(connection, tenant_id, ids)}
        alone = [await payment_store.load(connection, tenant_id, [one]) for one in ids]
    assert [rows[one] for one in ids] == [found for (found,) in alone]
    assert {name: (rows[one].status, rows[one].code, rows[one].attempts, rows[one].first_due_at)
            for name, one in zip(("waiting", "tried", "ended", "retried", "lost"), ids, strict=True)
            } == {
        "waiting": (None, None, None, None),
        "tried": (None, "c", 1, DUE),
        "ended": ("CANCELLED", None, None, None),
        "retried": ("CANCELLED", None, None, DUE),
        "lost": (None, None, None, None),
    }  # fmt: skip


async def test_reading_a_payment_plans_no_scan_of_a_table(
    database: Database, tenant_id: int
) -> None:
    # A statement is planned at each read; what a function scans is planned once a session.
    values = (tenant_id, [0], [LAST], LAST, LAST, LAST)
    async with database.read(tenant_id) as connection:
        lines = await connection.fetch(f"EXPLAIN {query('payment_load')}", *values)
    scans = [line[0].split(" on ")[0].strip() for line in lines if " on " in line[0]]
    assert scans == ["Function Scan"]
