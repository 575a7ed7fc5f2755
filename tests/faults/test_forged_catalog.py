"""The catalog is a fact like any other: whoever changes what is declared is found out."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest

from conftest import Api
from postdate.database.connection.database import Connection, Database
from postdate.database.connection.pooled import PooledConnection
from postdate.database.embedded import Embedded
from postdate.proof.prove import LedgerFinding
from postdate.prover import catalog, checker, functions
from postdate.schema import migrate
from postdate.secret.receipt_key import ReceiptKeys
from postdate.tenant.change.tenant import Tenants
from postdate.words.error import StartError
from support.own_transaction import own_role

CATALOG = "catalog_is_as_shipped"
ROLE = "role_is_as_sealed"
RECEIPT_KEY = "receipt_key_is_as_sealed"

FORGERIES = {
    "the limits of a client's role are lifted": (
        "UPDATE client_role SET max_amount = NULL WHERE role_name = '{role}'",
        (ROLE, "{role}"),
    ),
    "a client's role speaks for another tenant": (
        "UPDATE client_role SET tenant_id = {other} WHERE role_name = '{role}'",
        (ROLE, "{role}"),
    ),
    "a client's role is made up": (
        (
            "INSERT INTO client_role (role_name, tenant_id, scopes, bound_by) "
            "VALUES ('made_up', {tenant_id}, ARRAY['payments:write'], 'cli')"
        ),
        (ROLE, "made_up"),
    ),
    "a client's role is gone": (
        "DELETE FROM client_role WHERE role_name = '{role}'",
        (ROLE, "{role}"),
    ),
    "a key of receipts is made up": (
        (
            "INSERT INTO receipt_key (key_id, public_key, envelope) "
            "VALUES (repeat('ab', 16), decode(repeat('cd', 32), 'hex'), '')"
        ),
        (RECEIPT_KEY, "ab" * 16),
    ),
    "a key of receipts is replaced": (
        "UPDATE receipt_key SET public_key = decode(repeat('cd', 32), 'hex')",
        (RECEIPT_KEY, "{key_id}"),
    ),
    "a key of receipts is gone": ("DELETE FROM receipt_key", (RECEIPT_KEY, "{key_id}")),
    "a tenant is made up": (
        "INSERT INTO tenant (name) VALUES ('made-up')",
        ("tenant_is_as_sealed", "tenant"),
    ),
    "the time that nodes watched is ahead": (
        "UPDATE clock_watch SET at = at + interval '1 year'",
        ("clock_watch_is_past", "clock_watch"),
    ),
    "row-level security is off": (
        "ALTER TABLE payment DISABLE ROW LEVEL SECURITY",
        (CATALOG, "payment"),
    ),
    "row-level security does not bind the owner": (
        "ALTER TABLE payment NO FORCE ROW LEVEL SECURITY",
        (CATALOG, "payment"),
    ),
    "row-level security of one week is off": (
        (
            "DO $$BEGIN EXECUTE format('ALTER TABLE %I DISABLE ROW LEVEL SECURITY', "
            "(SELECT max(relname) FROM pg_class WHERE relname ~ '^payment_2[0-9]*$')); END$$"
        ),
        (CATALOG, "payment_WEEK"),
    ),
    "a policy is wider": (
        "ALTER POLICY reader_own ON payment USING (true)",
        (CATALOG, "payment"),
    ),
    "a policy is added": (
        "CREATE POLICY more ON job FOR SELECT TO PUBLIC USING (true)",
        (CATALOG, "job"),
    ),
    "a client reads payments": (
        "GRANT SELECT ON payment TO {role}",
        (CATALOG, "payment"),
    ),
    "a client reads one column": (
        "GRANT SELECT (hash) ON api_key TO {role}",
        (CATALOG, "api_key.hash"),
    ),
    "a client calls a function of the nodes": (
        "GRANT EXECUTE ON FUNCTION account_add TO {role}",
        (CATALOG, "account_add"),
    ),
    "a client makes functions": (
        "GRANT CREATE ON SCHEMA postdate TO {role}",
        (CATALOG, "postdate"),
    ),
    "a client acts as a node": ("GRANT postdate_writer TO {role}", (CATALOG, "{role}")),
    "a client is bound by no policy": ("ALTER ROLE {role} BYPASSRLS", (CATALOG, "{role}")),
    "sessions begin without triggers": (
        (
            "DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET session_replication_role = "
            "replica', current_database()); END$$"
        ),
        (CATALOG, "database"),
    ),
    "a client's sessions begin with another isolation": (
        "ALTER ROLE {role} SET default_transaction_isolation = 'serializable'",
        (CATALOG, "{role}"),
    ),
    "a default is another": (
        "ALTER TABLE account ALTER floor SET DEFAULT -1000000",
        (CATALOG, "account"),
    ),
    "a trigger is off": (
        "ALTER TABLE transfer DISABLE TRIGGER transfer_fact",
        (CATALOG, "transfer"),
    ),
    "a trigger is gone": ("DROP TRIGGER transfer_fact ON transfer", (CATALOG, "transfer")),
    "a trigger is added": (
        (
            "CREATE TRIGGER more BEFORE UPDATE ON timer FOR EACH ROW "
            "EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        ),
        (CATALOG, "timer"),
    ),
    "a constraint is gone": (
        "ALTER TABLE tenant_halt DROP CONSTRAINT tenant_halt_kind_check",
        (CATALOG, "tenant_halt"),
    ),
    "a rule is added": (
        "CREATE RULE more AS ON DELETE TO setting DO INSTEAD NOTHING",
        (CATALOG, "setting"),
    ),
    "a function is added": (
        "CREATE FUNCTION postdate.more() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        (CATALOG, "more"),
    ),
    "a function runs with the owner's rights": (
        "ALTER FUNCTION job_read SECURITY DEFINER",
        (CATALOG, "job_read"),
    ),
    "the checksum of a file of functions is another": (
        "UPDATE function_file SET checksum = 'other' WHERE noun = 'guard'",
        ("function_is_as_shipped", "functions/guard"),
    ),
    "the schema of a payment admits more": (
        (
            "UPDATE client_schema SET schema = schema #- '{{properties,amount,minimum}}' "
            "WHERE noun = 'payment'"
        ),
        ("function_is_as_shipped", "payment"),
    ),
    "the default of a setting is another": (
        "UPDATE setting_default SET value = '1' WHERE name = 'payment.max_delay_seconds'",
        ("function_is_as_shipped", "payment.max_delay_seconds"),
    ),
    "a setting is unknown to SQL": (
        "DELETE FROM setting_default WHERE name = 'job.max_lanes'",
        ("function_is_as_shipped", "job.max_lanes"),
    ),
}


OWN = "payment.unsafe_commits"
"""A setting that the tests put into every database, without telling anybody."""

CHECKED = ("state_is_as_sealed", "state_is_recorded", functions.CHECK, catalog.CHECK)


@dataclass
class Scene:
    """A database with a bound role and a key that signs receipts, and who may write anything."""

    vandal: Connection
    words: dict[str, str]


@pytest.fixture(scope="module")
async def scene(
    edge_server: Api, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[Scene]:
    tenants, tenant = Tenants(database), "forged"
    tenant_id, other = await tenants.create(tenant), await tenants.create("other")
    key = await ReceiptKeys(database, edge_server.node.outgoing.keyring).rotate()
    dsn = server.credentials.superuser_dsn(database_name)
    powers = {"search_path": "postdate"}
    pool = asyncpg.create_pool(dsn, min_size=1, max_size=1, server_settings=powers)
    async with own_role(server, database_name, database, tenant, max_amount=9) as role:
        async with pool, pool.acquire() as lent:
            words = {"role": role.name, "tenant_id": tenant_id, "other": other}
            words["key_id"] = key.key_id
            yield Scene(PooledConnection(lent), {name: str(word) for name, word in words.items()})


async def found(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> list[LedgerFinding]:
    """Make the proofs that read what is declared, or who was told of what."""
    monkeypatch.setattr(checker, "STEPS", CHECKED)
    return (await checker.prove_on(scene.vandal)).findings


async def test_what_was_migrated_and_bound_proves(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert set(CHECKED) <= set(checker.STEPS)
    async with scene.vandal.transaction():
        assert [each for each in await found(scene, monkeypatch) if each.subject != OWN] == []


@pytest.mark.parametrize("name", FORGERIES)
async def test_a_forgery_is_named(scene: Scene, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    statement, expected = FORGERIES[name]
    check, subject = expected[0], expected[1].format(**scene.words)
    assert check in checker.FINDINGS
    transaction = scene.vandal.transaction()
    await transaction.start()
    try:
        await scene.vandal.execute(statement.format(**scene.words))
        named = await found(scene, monkeypatch)
    finally:
        await transaction.rollback()
    assert (check, subject) in {(each.check, each.subject) for each in named}, named


async def test_a_changed_checksum_does_not_keep_prove_from_running(scene: Scene) -> None:
    transaction = scene.vandal.transaction()
    await transaction.start()
    try:
        await scene.vandal.execute("UPDATE function_file SET checksum = 'other'")
        await migrate.require_current(scene.vandal, altered=True)
        with pytest.raises(StartError, match="older than this postdate"):
            await migrate.require_current(scene.vandal)
    finally:
        await transaction.rollback()
