"""One rule for both ways in: what the API refuses, SQL refuses with the same code and sentence.

SQL has no text of the rules: `migrate` writes the schemas and settings that Python declares.
"""

import itertools
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from conftest import Api, owner_dsn
from postdate.core.money import money_text
from postdate.core.setting.setting import Settings, Stored, resolve
from postdate.core.setting.table import SETTINGS, SettingValue
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.schema import client_rules
from postdate.words.error import EXPLANATIONS, Code
from support.api_ledger import Ledger, key, open_ledger
from support.own_transaction import own_role, refusal

LONG = "x" * 3000
WORKER = {"type": "worker"}
JOB = {"destination": WORKER}
PAYMENT = {"from_account_id": "alice", "to_account_id": "bob", "amount": 1, "delay_seconds": 60}

BAD_DESTINATIONS: list[Any] = [
    None,
    [],
    "worker",
    {},
    {"type": None},
    {"type": 5},
    {"type": "wrk"},
    {"type": LONG},
    {"type": "worker", "to": 1},
    {"type": "worker", "url": None},
    {"type": "queue"},
    {"type": "queue", "name": None},
    {"type": "queue", "name": 5},
    {"type": "queue", "name": ""},
    {"type": "queue", "name": "n" * 64},
    {"type": "queue", "name": "nowhere"},
    {"type": "queue", "name": "nowhere", "subject": ""},
    {"type": "webhook"},
    {"type": "webhook", "url": 5},
    {"type": "webhook", "url": ""},
    {"type": "webhook", "url": LONG},
    {"type": "webhook", "url": "https://example.com/", "name": "n"},
    {"type": "webhook", "name": "nowhere"},
]
BAD_RETRIES: list[Any] = [
    5,
    [],
    "often",
    {"tries": 1},
    {"max_attempts": 0},
    {"max_attempts": 101},
    {"max_attempts": 1.5},
    {"max_attempts": "3"},
    {"max_attempts": True},
    {"backoff": "slow"},
    {"backoff": 5},
    {"initial_seconds": 0},
    {"initial_seconds": 86401},
    {"max_seconds": 604800.5},
    {"jitter": -0.1},
    {"jitter": 1.01},
    {"jitter": []},
    {"max_age_seconds": 0},
    {"max_age_seconds": 31622401},
    {"on_unknown": "ignore"},
]
BAD_UNIQUES: list[Any] = [
    "x",
    {},
    {"key": ""},
    {"key": "x" * 256},
    {"key": "a\n"},
    {"key": "a\x1fb"},
    {"key": "\x85"},
    {"key": 5},
    {"key": "a", "on_conflict": "drop"},
    {"key": "a", "on_conflict": "debounce"},
    {"key": "a", "max_delay_seconds": 5},
    {"key": "a", "on_conflict": "replace", "max_delay_seconds": 5},
    {"key": "a", "on_conflict": "debounce", "max_delay_seconds": 0},
    {"key": "a", "on_conflict": "debounce", "max_delay_seconds": 31622401},
    {"key": "a", "on_conflict": "debounce", "max_delay_seconds": "5"},
    {"key": "a", "seconds": 5},
]
BAD_JOBS: list[dict[str, Any]] = [
    *({"unique": each} for each in BAD_UNIQUES),
    {
        "unique": {"key": "a", "on_conflict": "debounce", "max_delay_seconds": 5},
        "delay_seconds": 6,
    },
    *({"destination": each} for each in BAD_DESTINATIONS),
    *({"retry": each} for each in BAD_RETRIES),
    {"delay_seconds": -1},
    {"delay_seconds": 10_000_000_001},
    {"delay_seconds": 10_000_000_000},
    {"run_at": "2001-01-01T00:00:00Z"},
    {"run_at": "9000-01-01T00:00:00Z"},
    {"run_at": "2031-01-01T00:00:00Z", "delay_seconds": 1},
    {"expires_at": "2001-01-01T00:00:00Z"},
    {"expires_at": "9000-01-01T00:00:00Z"},
    {"timeout_seconds": 0},
    {"timeout_seconds": 3600.5},
    {"lane": ""},
    {"lane": "a b"},
    {"lane": "-a"},
    {"lane": "n" * 64},
    {"lane": "a\n"},
    {"lane": None},
    {"metadata": []},
    {"metadata": 5},
    {"metadata": {"a": "x" * 4096}},
    {"description": "x" * 501},
    {"payload_ref": ""},
    {"payload_ref": LONG},
    {"payload": 1, "payload_ref": "x"},
    {"payload": "x" * 262144},
    {"content_type": "text/plain"},
    {"payload": 1, "content_type": "text"},
    {"payload": 1, "content_type": "text/plain\n"},
    {"payload": 1, "content_type": "text/" + "x" * 127},
    {"key": ""},
    {"key": "k" * 256},
    {"key": "a\n"},
    {"key": "a\u0085b"},
    {"priority": -1},
    {"priority": 10},
    {"priority": None},
]
BAD_PAYMENTS: list[dict[str, Any]] = [
    {"from_account_id": None},
    {"from_account_id": ""},
    {"from_account_id": "a b"},
    {"to_account_id": "-bob"},
    {"to_account_id": "b" * 65},
    {"to_account_id": "bob\n"},
    {"to_account_id": "alice"},
    {"to_account_id": "nobody"},
    {"to_account_id": "issuer"},
    {"amount": None},
    {"amount": 0},
    {"amount": 9007199254740993},
    {"amount": 1001},
    {"amount": 1000001},
    {"delay_seconds": 0},
    {"delay_seconds": None},
    {"delay_seconds": 9007199254740993},
    {"delay_seconds": 9007199254740992},
    {"delay_seconds": 31536001},
    {"scheduled_time": "2031-01-01T00:00:00Z"},
    {"delay_seconds": None, "scheduled_time": "2001-01-01T00:00:00Z"},
    {"description": "x" * 501},
    {"funding": "later"},
    {"funding": None},
    {"on_broken": "burn"},
    {"on_insufficient": {"retry_until": "2031-01-01T00:00:00Z"}},
    {"on_insufficient": {"retry_until": "2001-01-01T00:00:00Z"}, "funding": "at_execution"},
]
TYPES = {
    "priority": "text::integer",
    "destination": "text::jsonb",
    "payload": "text::jsonb",
    "retry": "text::jsonb",
    "unique": "text::jsonb",
    "metadata": "text::jsonb",
    "run_at": "text::timestamptz",
    "expires_at": "text::timestamptz",
    "scheduled_time": "text::timestamptz",
    "retry_until": "text::timestamptz",
    "delay_seconds": "text::float8",
    "timeout_seconds": "text::float8",
    "amount": "text::bigint",
}
"""What an argument is in SQL; else it is a text."""

_NEAREST = re.compile(r" Did you mean `[^`]*`\?")


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


@pytest.fixture
async def own(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[asyncpg.Connection]:
    async with own_role(server, database_name, database, ledger.api.tenant) as role:
        async with role.connect() as connection:
            yield connection


def call(function: str, body: dict[str, Any]) -> tuple[str, list[str | None]]:
    """Write the call of a function with these arguments."""
    names: list[str] = []
    values: list[str | None] = []
    for name, value in body.items():
        cast = TYPES.get(name, "text")
        if function == "schedule_payment" and name == "delay_seconds":
            cast = "text::bigint"
        argument = "unique_by" if name == "unique" else name
        names.append(f"{argument} => ${len(names) + 1}::{cast}")
        plain = value is None or (isinstance(value, str) and not cast.endswith("jsonb"))
        values.append(value if plain else json.dumps(value))
    return f"SELECT postdate.{function}({', '.join(names)})", values


async def refused_in_sql(
    own: asyncpg.Connection, function: str, body: dict[str, Any]
) -> tuple[str, str, str | None]:
    statement, values = call(function, body)
    with pytest.raises(asyncpg.PostgresError) as refused:
        await own.execute(statement, *values)
    told = refusal(refused.value)
    assert refused.value.sqlstate == f"PD{EXPLANATIONS[Code(told['code'])].status}"
    return told["code"], refused.value.message, told.get("field")


async def refused_by_api(
    ledger: Ledger, path: str, body: dict[str, Any]
) -> tuple[str, str, str | None]:
    """Return what the API says, without the suggestion: SQL knows no likeness of words."""
    answer = await ledger.api.call("POST", path, body, headers=key())
    assert 400 <= answer.status < 500, answer
    says = answer.body
    detail = _NEAREST.sub("", says["detail"])
    # Bytes are an argument of their own in SQL.
    detail = detail.replace("payload_base64", "payload_bytes")
    return says["code"], detail, says.get("field")


async def test_bad_jobs_are_refused_alike(ledger: Ledger, own: asyncpg.Connection) -> None:
    for mistake in BAD_JOBS:
        wanted = await refused_by_api(ledger, "/jobs", JOB | mistake)
        assert await refused_in_sql(own, "enqueue", JOB | mistake) == wanted, mistake


async def test_bad_payments_are_refused_alike(ledger: Ledger, own: asyncpg.Connection) -> None:
    for mistake in BAD_PAYMENTS:
        wanted = await refused_by_api(ledger, "/payments/schedule", PAYMENT | mistake)
        given: dict[str, Any] = PAYMENT | mistake | {"idempotency_key": "k"}
        if "on_insufficient" in given:
            given |= given.pop("on_insufficient")
        assert await refused_in_sql(own, "schedule_payment", given) == wanted, mistake


async def test_every_bound_of_a_field_is_in_the_corpus() -> None:
    """A field that is added with a rule needs a body that breaks it."""
    for schema, corpus in (
        (client_rules.job_schema(), BAD_JOBS),
        (client_rules.payment_schema(), BAD_PAYMENTS),
    ):
        bounded = {name for name, rule in schema["properties"].items() if len(rule) > 1}
        tried = set(itertools.chain.from_iterable(corpus))
        assert bounded - tried - {"spread_seconds"} == set()


@pytest.mark.parametrize("name", ["payment.max_amount", "quota.pending_jobs", "job.encryption"])
async def test_a_setting_means_the_same_in_sql(
    server: Embedded, database_name: str, tenant_id: int, name: str
) -> None:
    """The operator's value bounds the tenant's own, whatever a tenant may do about it."""
    values: list[SettingValue | None] = [None, *(SETTINGS[name].choices or (0, 5, 7))]
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    await owner.execute("SET search_path = postdate")
    for of_all, of_tenant, own in itertools.product(values, repeat=3):
        given = [(0, of_all, True), (tenant_id, of_tenant, True), (tenant_id, own, False)]
        stored = [Stored(whose, name, value, by) for whose, value, by in given if value is not None]
        wanted = Settings(resolve(stored)).get(name, tenant_id)
        assert await value_in_sql(owner, stored, name, tenant_id) == wanted, stored
    await owner.close()


async def value_in_sql(
    owner: asyncpg.Connection, stored: list[Stored], name: str, tenant_id: int
) -> SettingValue:
    """Return the value that holds with these rows and no others; none of them stays."""
    transaction = owner.transaction()
    await transaction.start()
    await owner.execute("DELETE FROM setting")
    await owner.executemany(
        "INSERT INTO setting (tenant_id, name, value, operator, changed_by) "
        "VALUES ($1, $2, $3::text::jsonb, $4, 'test')",
        [(each.tenant_id, name, json.dumps(each.value), each.operator) for each in stored],
    )
    found = await owner.fetchval("SELECT client_setting($1, $2)::text", tenant_id, name)
    await transaction.rollback()
    value: SettingValue = json.loads(found)
    return value


async def test_sql_writes_amounts_as_python_does(server: Embedded, database_name: str) -> None:
    amounts = [0, 1, -5, 99, 100, 1250, 84683589, 10**15, 2**62, -(2**62)]
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    try:
        for amount, currency in itertools.product(
            amounts, ("EUR", "JPY", "BHD", "CLF", "ZZZ", None)
        ):
            query = "SELECT postdate.client_money_text($1, $2)"
            assert await owner.fetchval(query, amount, currency) == money_text(amount, currency)
    finally:
        await owner.close()
