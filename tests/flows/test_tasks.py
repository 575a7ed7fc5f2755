"""Tasks are functions: checked when they are called, run by a worker, their result awaited."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from conftest import Api
from postdate import Postdate
from postdate.client import GiveUpError, Lease
from postdate.task import TaskFailedError, TaskResultError
from postdate.task.duration import seconds_of
from postdate.task.handle import MapRefusedError


@dataclass
class Address:
    """Where an invoice goes."""

    street: str
    number: int = 1


@asynccontextmanager
async def working(app: Postdate) -> AsyncIterator[None]:
    worker = app.worker()
    running = asyncio.create_task(worker.run())
    try:
        yield
    finally:
        worker.stop()
        await running
        await app.asynchronous.close()


async def in_thread(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call what a program without an event loop calls."""
    return await asyncio.to_thread(function, *args, **kwargs)


async def test_a_task_runs_and_its_result_is_awaited(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task(lane="mail", retry=3)
    async def send_invoice(invoice_id: int, to: Address, *, copies: int = 1) -> Address:
        return Address(to.street, to.number + invoice_id * copies)

    @app.task(lane="mail")
    def add(left: int, right: int) -> int:
        return left + right

    async with working(app):
        sent = await send_invoice.anow(7, Address("Main"), copies=2)
        added = await in_thread(add.later, "0.1s", 1, right=2)
        assert await sent.result() == Address("Main", 15)
        assert await in_thread(added.wait) == 3
        policy = (await sent.ajob()).retry
        assert policy is not None
        assert policy.max_attempts == 4
    assert await send_invoice(1, Address("Here")) == Address("Here", 2), "called, it runs here"


async def test_arguments_that_do_not_fit_are_refused_before_anything_is_scheduled(
    api: Api,
) -> None:
    app = Postdate(api.url, api.key)

    @app.task()
    def add(left: int, right: int) -> int:
        return left + right

    for args, kwargs in (
        ((1,), {}),
        ((1, "2"), {}),
        ((1, 2, 3), {}),
        ((1,), {"rihgt": 2}),
        ((1, object()), {}),
    ):
        with pytest.raises(TypeError):
            add.now(*args, **kwargs)
    with pytest.raises(ValueError, match="time zone"):
        add.at(datetime(2030, 1, 1), 1, 2)  # noqa: DTZ001 - that is the point
    with pytest.raises(ValueError, match="no duration"):
        add.later("soon", 1, 2)
    assert (await api.call("GET", "/jobs")).body["jobs"] == []


async def test_a_call_that_the_function_no_longer_takes_is_given_up(api: Api) -> None:
    old, new = Postdate(api.url, api.key), Postdate(api.url, api.key)

    @old.task(name="greet")
    def greet(name: str) -> None: ...

    @new.task(name="greet")
    def greet_twice(first: str, second: str) -> None: ...

    async with working(new):
        handle = await greet.anow("Ada")
        with pytest.raises(TaskFailedError, match="unknown field `name`") as failed:
            await handle.result()
        assert (failed.value.job.code, failed.value.job.attempt) == ("bad_arguments", 1)
    await old.asynchronous.close()


async def test_a_task_may_ask_for_its_job_and_may_give_up(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task()
    def which(job: Lease, wanted: str) -> str:
        if wanted != "id":
            raise GiveUpError(f"there is no {wanted}", code="no_such_thing")
        return str(job.job_id)

    async with working(app):
        first, second = await which.amap(["id", ("name",)])
        assert await first.result() == first.job_id
        with pytest.raises(TaskFailedError, match="there is no name"):
            await second.result()


async def test_many_calls_are_scheduled_in_batches_and_refusals_are_told(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task(lane="many")
    def double(number: int) -> int:
        return number * 2

    handles = await double.amap({"number": each} for each in range(1001))
    assert len({each.job_id for each in handles}) == 1001
    await app.asynchronous.close()

    refused = Postdate(api.url, api.key)

    @refused.task(lane="no such lane!")
    def never() -> None: ...

    with pytest.raises(MapRefusedError) as error:
        await never.amap([{}, {}])
    assert sorted(error.value.problems) == [0, 1]
    assert error.value.handles == []
    await refused.asynchronous.close()


async def test_one_call_waits_under_a_unique_key(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task(unique="reindex")
    def reindex(index: int) -> None: ...

    first = await reindex.alater("1h", 1)
    assert (await reindex.alater("1h", 2)).job_id == first.job_id
    replace = {"key": "reindex", "on_conflict": "replace"}
    assert (await reindex.alater("1h", 3, unique=replace)).job_id == first.job_id
    assert (await reindex.alater("1h", 4, unique="other")).job_id != first.job_id
    shown = (await api.call("GET", f"/jobs/{first.job_id}")).body
    assert (shown["payload"], shown["revision"]) == ({"index": 3}, 1)
    await app.asynchronous.close()


async def test_one_key_schedules_one_call_and_a_handle_cancels_it(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task()
    def once() -> None: ...

    at = datetime.now(UTC) + timedelta(days=1)
    first = await once.aat(at, idempotency_key="once")
    again = await once.aat(at, idempotency_key="once")
    assert first.job_id == again.job_id
    assert (await first.acancel()).status == "CANCELLED"
    with pytest.raises(TaskFailedError, match="CANCELLED"):
        await first.result()
    await app.asynchronous.close()


async def test_a_task_recurs_and_a_restart_changes_its_rule_instead_of_adding_one(
    api: Api,
) -> None:
    app = Postdate(api.url, api.key)

    @app.task(lane="reports")
    def report(kind: str) -> None: ...

    made = await asyncio.gather(*(report.aevery("0 9 * * 1-5", "daily") for _ in range(20)))
    assert len({each.schedule_id for each in made}) == 1
    again = await in_thread(report.every, "0 9 * * 1-5", kind="daily")
    assert (again.schedule_id, again.version) == (made[0].schedule_id, 1)
    moved = await in_thread(report.every, "30 9 * * *", "daily", timezone="Europe/Berlin")
    assert (moved.schedule_id, moved.cron, moved.version) == (again.schedule_id, "30 9 * * *", 2)
    other = await report.aevery("15m", "weekly")
    assert (other.every_seconds, other.schedule_id == moved.schedule_id) == (900, False)
    await app.asynchronous.schedules.delete(moved.schedule_id)
    anew = await report.aevery("0 9 * * 1-5", "daily")
    assert anew.schedule_id != moved.schedule_id
    await app.asynchronous.close()
    app.client.close()


def test_what_cannot_be_a_task_is_refused_where_it_is_declared() -> None:
    app = Postdate()

    with pytest.raises(TypeError, match="names its parameters"):

        @app.task()
        def anything(*args: int) -> None: ...

    with pytest.raises(TypeError, match="using"):

        @app.task()
        def uses(using: str) -> None: ...

    @app.task()
    def same() -> None: ...

    with pytest.raises(ValueError, match="already"):
        app.task(name="same")(lambda: None)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("5m", 300), ("1h30m", 5400), ("2d", 172_800), ("0.5s", 0.5), (7, 7), ("1w", 604_800)],
)
def test_durations_are_written_as_people_write_them(written: str | int, seconds: float) -> None:
    assert seconds_of(written) == seconds
    assert seconds_of(timedelta(seconds=seconds)) == seconds


@pytest.mark.parametrize("written", ["", "5", "m", "5 minutes", "-5m", "1h 30", "٣m"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds_of(written)


@pytest.mark.parametrize("returned", ["a\0b", "half \ud800", object(), "x" * 70_000])
async def test_work_whose_result_cannot_be_stored_is_done_and_not_repeated(
    api: Api, returned: Any
) -> None:
    app, runs = Postdate(api.url, api.key), []

    @app.task(lane="results")
    async def work() -> str:
        runs.append(1)
        text: str = returned
        return text

    async with working(app):
        handle = await work.anow()
        with pytest.raises(TaskResultError, match="the result") as refused:
            await handle.result(timeout=10)
    assert refused.value.job.status == "COMPLETED"
    assert len(runs) == 1


async def test_a_result_of_another_type_than_annotated_is_an_error_of_its_own(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task(lane="results")
    async def work() -> int:
        text: Any = "text"
        return text  # type: ignore[no-any-return]

    async with working(app):
        handle = await work.anow()
        with pytest.raises(TaskResultError, match="Expected `int`"):
            await handle.result(timeout=10)


async def test_an_error_with_characters_that_cannot_be_stored_is_reported(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task(lane="results", retry=0)
    async def fail() -> None:
        raise ValueError("nul \0 and half \ud800")

    async with working(app):
        handle = await fail.anow()
        with pytest.raises(TaskFailedError) as failed:
            await handle.result(timeout=10)
    assert str(failed.value.job.error).startswith("ValueError: nul \\x00 and half \\ud800")


async def test_a_backslash_before_u0000_is_text_and_is_kept(api: Api) -> None:
    app = Postdate(api.url, api.key)

    @app.task(lane="results")
    async def echo(text: str, numbers: dict[int, str]) -> dict[int, str]:
        return {**numbers, 2: text}

    async with working(app):
        handle = await echo.anow("\\u0000", {1: "one"})
        assert await handle.result(timeout=10) == {1: "one", 2: "\\u0000"}


@pytest.mark.parametrize("endless", [float("inf"), float("nan"), True])
def test_a_duration_without_an_end_is_refused(endless: float) -> None:
    with pytest.raises(ValueError, match="duration"):
        seconds_of(endless)


@pytest.mark.parametrize("name", ["Miete für Ada", "a\x7fb"])
async def test_a_schedule_of_any_name_is_ensured(api: Api, name: str) -> None:
    app = Postdate(api.url, api.key)

    @app.task(lane="names")
    async def remind(text: str) -> None: ...

    first = await remind.aevery("1h", name)
    assert (await remind.aevery("1h", name)).schedule_id == first.schedule_id
    await app.close()
