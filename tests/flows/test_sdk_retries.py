"""The client sends again what is safe to send again, with one key, and tells of the rest."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from postdate.client import (
    AsyncClient,
    Client,
    ConfigurationError,
    PostdateError,
    ProblemError,
    UnexpectedAnswerError,
    UnreachableError,
    transport,
)
from postdate.client.models import JobStatus
from postdate.client.problems import (
    InsufficientFundsError,
    NotFoundError,
    OutcomeUnknownError,
    UnavailableError,
)
from support.scripted_server import DROP, scripted

PAYMENT = {"payment_id": "p", "scheduled_time": "2031-01-01T00:00:00Z", "status": "PENDING"}
ACCOUNT = {
    "account_id": "a", "balance": 0, "held": 0, "available": 0, "version": 0, "floor": 0,
    "max_amount": None, "created_at": "2031-01-01T00:00:00Z", "updated_at": "2031-01-01T00:00:00Z",
}  # fmt: skip
ORDER: dict[str, Any] = {"from_account_id": "a", "to_account_id": "b", "amount": 5}


def problem(code: str) -> dict[str, Any]:
    return {"code": code, "detail": "because", "status": 503, "request_id": "r-1"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "PAUSE_SECONDS", 0.001)


@pytest.mark.parametrize("first", [DROP, (503, problem("unavailable"))], ids=["cut", "503"])
async def test_a_payment_is_sent_again_under_one_key_that_was_made_for_it(first: Any) -> None:
    async with scripted(first, first, (201, PAYMENT)) as server:
        async with AsyncClient(server.url, "k") as client:
            made = await client.payments.schedule(**ORDER, delay_seconds=timedelta(minutes=1))
    assert made.payment_id == "p"
    keys = [asked.headers["idempotency-key"] for asked in server.asked]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert {str(asked.body) for asked in server.asked} == {str({**ORDER, "delay_seconds": 60})}


async def test_the_key_is_on_the_exception_and_can_be_used_again() -> None:
    async with scripted(DROP, (201, PAYMENT)) as server:
        async with AsyncClient(server.url, "k", retries=0) as client:
            with pytest.raises(UnreachableError) as raised:
                await client.payments.schedule(**ORDER, delay_seconds=60)
            key = raised.value.idempotency_key
            assert raised.value.maybe_done
            await client.payments.schedule(**ORDER, delay_seconds=60, idempotency_key=key)
    assert {asked.headers["idempotency-key"] for asked in server.asked} == {key}


async def test_items_of_a_batch_get_keys_that_stay_the_same() -> None:
    done = {"accepted": 2, "refused": 0, "outcomes": []}
    async with scripted(DROP, (200, done)) as server, AsyncClient(server.url, "k") as client:
        await client.jobs.create_many(
            jobs=[
                {"destination": {"type": "worker"}},
                {"destination": {"type": "worker"}, "idempotency_key": "mine"},
            ],
            idempotency_key="batch",
        )
    sent = [[item["idempotency_key"] for item in asked.body["jobs"]] for asked in server.asked]
    assert sent == [["batch-0", "mine"]] * 2


async def test_what_may_not_be_repeated_is_not() -> None:
    async with scripted(DROP, (200, {"leases": []})) as server:
        async with AsyncClient(server.url, "k") as client:
            with pytest.raises(UnreachableError):
                await client.leases.claim("lane")
    assert len(server.asked) == 1


async def test_an_unknown_outcome_is_asked_again_by_key_and_told_in_the_end() -> None:
    async with scripted((503, problem("outcome_unknown"))) as server:
        async with AsyncClient(server.url, "k", retries=2) as client:
            with pytest.raises(OutcomeUnknownError) as raised:
                await client.payments.schedule(**ORDER, delay_seconds=60)
    assert len(server.asked) == 3
    assert raised.value.idempotency_key == server.asked[0].headers["idempotency-key"]


async def test_a_server_that_asks_for_long_patience_is_told_to_the_caller() -> None:
    answer = (503, problem("unavailable"), {"retry-after": "600"})
    async with scripted(answer) as server, AsyncClient(server.url, "k") as client:
        with pytest.raises(UnavailableError) as raised:
            await client.accounts.get("a")
    assert (len(server.asked), raised.value.retry_after_seconds) == (1, 600)


async def test_refusals_are_classes_by_code_and_one_of_a_newer_server_is_still_one() -> None:
    answers = [(404, problem("not_found")), (402, problem("insufficient_funds"))]
    async with scripted(*answers, (418, problem("brand_new"))) as server:
        async with AsyncClient(server.url, "k") as client:
            with pytest.raises(NotFoundError, match=r"because \[not_found\]"):
                await client.accounts.get("a")
            with pytest.raises(InsufficientFundsError):
                await client.accounts.get("a")
            with pytest.raises(ProblemError) as raised:
                await client.accounts.get("a")
    assert (raised.value.code, raised.value.request_id) == ("brand_new", "r-1")


async def test_a_newer_server_may_have_more_fields_and_words() -> None:
    job = {
        "job_id": "j", "status": "SLEEPING", "lane": "l", "destination": {"type": "worker"},
        "due_at": "2031-01-01T00:00:00Z", "effective_at": "2031-01-01T00:00:00Z",
        "created_at": "2031-01-01T00:00:00Z", "priority": 5, "colour": "red",
    }  # fmt: skip
    async with scripted((200, job)) as server, AsyncClient(server.url, "k") as client:
        found = await client.jobs.get("j")
    assert found.status == "SLEEPING"
    assert isinstance(found.status, JobStatus)
    assert found.due_at == datetime(2031, 1, 1, tzinfo=UTC)


async def test_the_sync_client_serves_many_threads_and_works_inside_a_loop() -> None:
    def use(url: str) -> None:
        with Client(url, "k") as client:
            with ThreadPoolExecutor(16) as pool:
                found = list(pool.map(client.accounts.get, [f"a{n}" for n in range(64)]))
            assert {each.account_id for each in found} == {"a"}
            assert asyncio.run(_inside(client)) == "a"
            client.close()
            # A closed client opens again.
            assert client.accounts.get("a").account_id == "a"

    async with scripted((200, ACCOUNT)) as server:
        await asyncio.to_thread(use, server.url)
    assert sorted(each.path for each in server.asked[:64]) == sorted(
        f"/api/v1/accounts/a{n}" for n in range(64)
    )


async def _inside(client: Client) -> str:
    await asyncio.sleep(0)
    return client.accounts.get("a").account_id


async def test_the_environment_names_server_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted((200, ACCOUNT)) as server:
        monkeypatch.setenv("POSTDATE_URL", server.url)
        monkeypatch.setenv("POSTDATE_API_KEY", "from-the-environment")
        async with AsyncClient() as client:
            await client.accounts.get("a")
    assert server.asked[0].headers["authorization"] == "Bearer from-the-environment"


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (lambda _: Client(api_key=""), ConfigurationError, "there is no API key: pass api_key="),
    (lambda _: Client("localhost:8080", "k"), ConfigurationError, "begins with http://"),
    (lambda _: Client(api_key="a b"), ConfigurationError, "characters that no key has"),
    (lambda c: c.jobs.get(""), ValueError, "job_id is empty"),
    (
        lambda c: c.jobs.create(
            destination={"type": "worker"},
            run_at=datetime(2031, 1, 1),  # noqa: DTZ001 - the mistake
        ),
        ValueError,
        "run_at has no time zone",
    ),
    (
        lambda c: c.jobs.create(
            destination={"type": "worker"},
            expires_at=datetime(2031, 1, 1),  # noqa: DTZ001 - the mistake
        ),
        ValueError,
        "expires_at has no time zone",
    ),
    (
        lambda c: c.jobs.create(destination={"type": "worker"}, payload=object()),
        TypeError,
        "object",
    ),
    (lambda c: c.jobs.creat(), AttributeError, "creat"),
    (lambda c: c.tenants.list_page(), ConfigurationError, "POSTDATE_INTERNAL_TOKEN"),
    (lambda c: c.payments.schedule(**ORDER, delay=5), TypeError, "delay"),
    (lambda c: c.payments.schedule("a", "b", 5), TypeError, "positional"),
    (lambda c: c.accounts.get("a"), UnexpectedAnswerError, "get_account"),
]


@pytest.mark.parametrize(("call", "kind", "says"), MISTAKES)
async def test_mistakes_are_told_in_a_sentence(
    call: Any, kind: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POSTDATE_API_KEY", raising=False)

    def make(url: str) -> None:
        with Client(url, "k") as client:
            call(client)

    async with scripted((200, b"<html>")) as server:
        with pytest.raises(kind, match=says):
            await asyncio.to_thread(make, server.url)


async def test_nobody_there_is_told_with_the_address() -> None:
    async with AsyncClient("http://127.0.0.1:1", "k", retries=1) as client:
        with pytest.raises(PostdateError, match=r"http://127.0.0.1:1 does not answer") as raised:
            await client.accounts.get("a")
    assert isinstance(raised.value, UnreachableError)
    assert not raised.value.maybe_done


def test_a_client_that_nobody_closes_ends_with_its_program() -> None:
    program = (
        "from postdate.client import Client, UnreachableError\n"
        "client = Client('http://127.0.0.1:1', 'k', retries=0)\n"
        "try: client.accounts.get('a')\n"
        "except UnreachableError: print('told')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (ran.stdout, ran.stderr) == ("told\n", "")


async def test_a_read_is_no_older_than_what_the_client_has_changed() -> None:
    newest, older = {"Postdate-Freshness": "1a2b"}, {"Postdate-Freshness": "fff"}
    answers = ((201, PAYMENT, newest), (201, PAYMENT, older), (200, ACCOUNT))
    async with scripted(*answers) as server:
        async with AsyncClient(server.url, "k") as client:
            for _ in range(2):
                await client.payments.schedule(**ORDER, delay_seconds=timedelta(minutes=1))
            await client.accounts.get("a")
    sent = [asked.headers.get("postdate-freshness") for asked in server.asked]
    assert sent == [None, None, "1a2b"]
