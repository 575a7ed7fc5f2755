"""Mistakes in your own transaction are named as over HTTP: code, field, what is allowed."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from conftest import Api
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.words.error import EXPLANATIONS, Code
from support.api_ledger import Ledger, open_ledger
from support.own_transaction import WORKER, OwnRole, own_role, refusal


@pytest.fixture
async def ledger(api: Api) -> Ledger:
    return await open_ledger(api)


@pytest.fixture
async def role(
    ledger: Ledger, server: Embedded, database_name: str, database: Database
) -> AsyncIterator[OwnRole]:
    async with own_role(server, database_name, database, ledger.api.tenant) as role:
        yield role


@pytest.fixture
async def own(role: OwnRole) -> AsyncIterator[asyncpg.Connection]:
    async with role.connect() as connection:
        yield connection


WRONG: dict[str, tuple[str, str, str]] = {
    "no type": ("enqueue('{}')", "invalid_field", "destination.type"),
    "a stray member": (
        """enqueue('{"type": "worker", "to": 1}')""",
        "unknown_field",
        "destination.to",
    ),
    "an address": (
        """enqueue('{"type": "webhook", "url": "http://127.0.0.1/"}')""",
        "target_not_allowed",
        "destination.url",
    ),
    "a port": (
        """enqueue('{"type": "webhook", "url": "https://example.com:5432/"}')""",
        "target_not_allowed",
        "destination.url",
    ),
    "no such destination": (
        """enqueue('{"type": "queue", "name": "nowhere"}')""",
        "unknown_destination",
        "destination.name",
    ),
    "two times": (
        f"enqueue('{WORKER}', run_at => now(), delay_seconds => 1)",
        "invalid_field",
        "delay_seconds",
    ),
    "a delay below 0": (
        f"enqueue('{WORKER}', delay_seconds => -1)",
        "invalid_field",
        "delay_seconds",
    ),
    "a delay that is no number": (
        f"enqueue('{WORKER}', delay_seconds => 'NaN')",
        "invalid_field",
        "delay_seconds",
    ),
    "long ago": (f"enqueue('{WORKER}', run_at => '2001-01-01')", "due_in_past", "run_at"),
    "never": (f"enqueue('{WORKER}', run_at => 'infinity')", "invalid_field", "run_at"),
    "far ahead": (f"enqueue('{WORKER}', delay_seconds => 1e10)", "beyond_horizon", "delay_seconds"),
    "a lane": (f"enqueue('{WORKER}', lane => 'a b')", "invalid_field", "lane"),
    "retry": (
        f"""enqueue('{WORKER}', retry => '{{"max_attempts": 1.5}}')""",
        "invalid_field",
        "retry.max_attempts",
    ),
    "backoff": (
        f"""enqueue('{WORKER}', retry => '{{"backoff": "slow"}}')""",
        "invalid_field",
        "retry.backoff",
    ),
    "two payloads": (
        f"enqueue('{WORKER}', payload => '1', payload_ref => 'x')",
        "invalid_field",
        "payload",
    ),
    "a large payload": (
        f"enqueue('{WORKER}', payload => to_jsonb(repeat('x', 262144)))",
        "payload_too_large",
        "payload",
    ),
    "a key": (
        f"enqueue('{WORKER}', idempotency_key => 'grüß')",
        "idempotency_key_invalid",
        "idempotency_key",
    ),
    "no key": (
        "schedule_payment('alice', 'bob', 1, NULL, delay_seconds => 9)",
        "idempotency_key_missing",
        "idempotency_key",
    ),
    "amount 0": (
        "schedule_payment('alice', 'bob', 0, 'k', delay_seconds => 9)",
        "invalid_field",
        "amount",
    ),
    "self": (
        "schedule_payment('bob', 'bob', 1, 'k', delay_seconds => 9)",
        "self_payment",
        "to_account_id",
    ),
    "nobody": (
        "schedule_payment('alice', 'nobody', 1, 'k', delay_seconds => 9)",
        "unknown_account",
        "to_account_id",
    ),
    "issuer": (
        "schedule_payment('issuer', 'bob', 1, 'k', delay_seconds => 9)",
        "account_reserved",
        "from_account_id",
    ),
    "too much": (
        "schedule_payment('alice', 'bob', 1001, 'k', delay_seconds => 9)",
        "insufficient_funds",
        "amount",
    ),
    "above the limit": (
        "schedule_payment('alice', 'bob', 1000001, 'k', delay_seconds => 9)",
        "amount_above_limit",
        "amount",
    ),
    "now": (
        "schedule_payment('alice', 'bob', 1, 'k', scheduled_time => now())",
        "time_out_of_range",
        "scheduled_time",
    ),
    "funding": (
        "schedule_payment('alice', 'bob', 1, 'k', delay_seconds => 9, funding => 'later')",
        "invalid_field",
        "funding",
    ),
    "retry with a hold": (
        """schedule_payment('alice', 'bob', 1, 'k', delay_seconds => 9,
                            retry_until => now() + '1 day')""",
        "invalid_field",
        "on_insufficient",
    ),
    "no such id": ("cancel('0198c0de-5a4e-7abc-8def-0123456789ab')", "not_found", ""),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_mistake_is_named_as_over_http(
    ledger: Ledger, own: asyncpg.Connection, name: str
) -> None:
    call, code, field = WRONG[name]
    with pytest.raises(asyncpg.PostgresError) as refused:
        await own.execute(f"SELECT postdate.{call}")
    told = refusal(refused.value)
    assert (told["code"], told.get("field", "")) == (code, field), refused.value
    assert refused.value.sqlstate == f"PD{EXPLANATIONS[Code(code)].status}"
    assert refused.value.hint
    assert await ledger.held() == 0
