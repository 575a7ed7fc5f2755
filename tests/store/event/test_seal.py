"""Seals are read with what their events say now, however much the tenant has written."""

from conftest import owner_dsn
from postdate.database.connection.opening import WRITER_SETTINGS
from postdate.database.connection.query import queries
from postdate.database.connection.session import connect_alone
from postdate.database.embedded import Embedded

FILL = """
INSERT INTO entry (bucket, tenant_id, transfer_id, amount, balance, version, type, account_id,
                   payment_id)
SELECT n % 8, 1, ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, leg, 0, n, 'PAYMENT',
       'account ' || n % 8 || leg, gen_random_uuid()
  FROM generate_series(1, 5000) AS n, (VALUES (1), (-1)) AS legs (leg)"""


async def test_each_leg_of_a_payment_is_looked_up_by_its_key(
    server: Embedded, database_name: str
) -> None:
    """With statistics, the planner hashed all entries of the tenant for each payment."""
    settings = WRITER_SETTINGS | {"role": "postdate_owner"}
    connection = await connect_alone(owner_dsn(server, database_name), 20, settings)
    await connection.execute(FILL)
    await connection.execute("ANALYZE entry")
    await connection.execute(f"PREPARE asked AS {queries()['seal_stored']}")
    plan = await connection.fetch("EXPLAIN EXECUTE asked (1, 0, 1)")
    await connection.close()
    assert not [row[0] for row in plan if "Hash" in row[0] or "Merge Join" in row[0]]
