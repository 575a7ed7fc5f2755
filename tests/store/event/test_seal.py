"""Seals are read with what their events say now, however much the tenant has written."""

from conftest import owner_dsn
from postdate.database.connection.opening import WRITER_SETTINGS
from postdate.database.connection.query import queries
from postdate.database.connection.session import connect_alone
from postdate.database.embedded import Embedded

FILL = """
INSERT INTO transfer (bucket, to_bucket, tenant_id, transfer_id, amount, from_account, from_balance,
                      from_version, to_account, to_balance, to_version, payment_id)
SELECT n % 8, n % 7, 1, ('00000000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid, 1,
       'payer ' || n % 8, 0, n, 'payee ' || n % 7, 0, n, gen_random_uuid()
  FROM generate_series(1, 5000) AS n"""


async def test_the_transfer_of_a_payment_is_looked_up_by_its_key(
    server: Embedded, database_name: str
) -> None:
    """With statistics, the planner hashed all transfers of the tenant for each payment."""
    settings = WRITER_SETTINGS | {"role": "postdate_owner"}
    connection = await connect_alone(owner_dsn(server, database_name), 20, settings)
    await connection.execute(FILL)
    await connection.execute("ANALYZE transfer")
    await connection.execute(f"PREPARE asked AS {queries()['seal_stored']}")
    plan = await connection.fetch("EXPLAIN EXECUTE asked (1, 0, 1)")
    await connection.close()
    assert not [row[0] for row in plan if "Hash" in row[0] or "Merge Join" in row[0]]
