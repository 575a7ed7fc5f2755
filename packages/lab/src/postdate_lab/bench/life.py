"""What the whole life of a job or a payment writes: to the log, seals included, and to the disk."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from postdate.core.setting.setting import Stored
from postdate.setting import store as setting_store
from postdate_lab.bench import database as bench
from postdate_lab.bench import transfer
from postdate_lab.bench.bank import open_bank
from postdate_lab.bench.testbed import Measure, Testbed, at_most, plain
from postdate_lab.bench.worker import Accepting, Bench

JOB_TABLES: Final = ("job", "outcome", "attempt", "seal")
PAYMENT_TABLES: Final = ("payment", "outcome", "attempt", "transfer", "seal")
UNSAFE: Final = "payment.unsafe_commits"

MeasuredWork = Callable[[], Awaitable[None]]


class LifeGoal(NamedTuple):
    """The most bytes of one item: written to the log in its life, and left when it has ended."""

    log_bytes: int
    rest_bytes: int


JOB_GOAL: Final = LifeGoal(1100, 450)
PAYMENT_GOAL: Final = LifeGoal(2800, 1500)


async def job(at: Testbed, count: int) -> list[Measure]:
    """Accept, seal, run and seal a number of jobs."""
    lane, adding, worker = await at.lane(), Accepting(at), Bench(at, "worker")

    async def accept() -> None:
        await adding.add(lane, [None] * count)

    async def execute() -> None:
        async with worker.running():
            await worker.until(count)

    return await _life(at, count, JOB_TABLES, JOB_GOAL, [("accepted", accept), ("run", execute)])


async def payment(at: Testbed, count: int, accounts: int) -> list[Measure]:
    """Accept with a hold, seal, settle and seal so many payments."""
    bank = await open_bank(at, accounts)
    batches = bank.requests(count, delay_seconds=1)
    accepted = sum(map(len, batches))

    async def settle() -> None:
        while (await bank.count_endings()).ended < accepted:
            await transfer.ours(bank)

    steps: list[tuple[str, MeasuredWork]] = [
        ("accepted", partial(bank.accept, batches)),
        ("settled", settle),
    ]
    return await _life(at, accepted, PAYMENT_TABLES, PAYMENT_GOAL, steps)


async def _life(
    at: Testbed,
    count: int,
    tables: Sequence[str],
    goal: LifeGoal,
    steps: Sequence[tuple[str, MeasuredWork]],
) -> list[Measure]:
    """Do the steps, sealing after each; what remains is measured after a vacuum."""
    await at.seal()
    rest, found, total = await _at_rest(at, tables), [], 0.0
    waiting_tables = (*tables, "timer")
    before_all = await _at_rest(at, waiting_tables)
    async with _records_only(at):
        for name, work in steps:
            for what, step in ((name, work), (f"{name}, sealed", at.seal_all)):
                before = await at.wal()
                await step()
                written = (await at.wal() - before) / count
                found.append(plain("life", f"write-ahead log, {what}", written, "bytes"))
                total += written
            if (name, work) == steps[0]:
                waits = (await _at_rest(at, waiting_tables) - before_all) / count
                found.append(plain("life", "at rest while it waits", waits, "bytes"))
    await at.settle()
    left = (await _at_rest(at, tables) - rest) / count
    return [
        *found,
        at_most("life", "write-ahead log with seals", total, goal.log_bytes, "bytes"),
        at_most("life", "at rest when it has ended", left, goal.rest_bytes, "bytes"),
    ]


async def _at_rest(at: Testbed, tables: Sequence[str]) -> int:
    async with at.superuser() as connection:
        return await bench.at_rest(connection, tables)


@asynccontextmanager
async def _records_only(at: Testbed) -> AsyncIterator[None]:
    """Leave out the images of pages, which depend on how long ago the last checkpoint was."""
    async with at.node.database.write() as connection:
        await setting_store.put(connection, Stored(0, UNSAFE, "accept"), "bench")
    await at.node.refresh_settings()
    async with at.superuser() as admin, bench.switched_off(admin, "full_page_writes"):
        yield
