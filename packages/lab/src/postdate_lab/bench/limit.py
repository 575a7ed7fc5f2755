"""What PostgreSQL itself allows, whatever rows Postdate chose: the least that must be written.

Both limits use plain tables in a database of their own, sets of 1,000, one connection and one
commit a set. They know nothing of tenants, leases, events, holds or failures.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from postdate.database.connection.query import query
from postdate_lab.bench.machine import Stopwatch
from postdate_lab.bench.testbed import Testbed

SET: Final = 1000

_numbers: Final[Iterator[int]] = itertools.count(1)
_query = partial(query, package="postdate_lab.bench")


async def claim_and_delete(at: Testbed, count: int) -> float:
    """Claim due rows in one commit and delete them in a second; return the rate."""
    name = f"bare_job_{next(_numbers)}"
    await at.database(name)
    async with at.superuser(name) as connection:
        await connection.execute(_query("bench_bare_job_make"))
        await connection.execute(_query("bench_bare_job_fill"), count, timeout=3600)
        await at.settle(name)
        watch, done = Stopwatch(), 0
        while claimed := await connection.fetch(_query("bench_bare_job_claim"), SET):
            await connection.execute(_query("bench_bare_job_delete"), [row[0] for row in claimed])
            done += len(claimed)
        rate = watch.rate(done)
    if done != count:
        raise RuntimeError(f"of {count} bare jobs {done} were claimed")
    return rate


async def move_money(at: Testbed, pairs: Sequence[tuple[int, int]], accounts: int) -> float:
    """Update two balances and write two entries a transfer, in sets; return the rate."""
    name = f"bare_ledger_{next(_numbers)}"
    await at.database(name)
    async with at.superuser(name) as connection:
        await connection.execute(_query("bench_bare_ledger_make_account"))
        await connection.execute(_query("bench_bare_ledger_make_entry"))
        await connection.execute(_query("bench_bare_ledger_fill"), accounts)
        await at.settle(name)
        watch = Stopwatch()
        for first in range(0, len(pairs), SET):
            payers, payees = zip(*pairs[first : first + SET], strict=True)
            await connection.execute(_query("bench_bare_ledger_move"), payers, payees)
        rate = watch.rate(len(pairs))
        entries = await connection.fetchval(_query("bench_bare_ledger_count"))
    if entries != 2 * len(pairs):
        raise RuntimeError(f"{len(pairs)} transfers left {entries} entries")
    return rate
