"""The sweep: a fault at each statement of an operation, two nodes, and what is then wrong."""

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple
from uuid import uuid4

from conftest import scratch
from faults.pg_proxy import Fault, Plan, Proxy, proxied, through
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.tenant.store import tenant as tenant_store

ACT_SECONDS: Final = 30.0
ACTS_MOST: Final = 40
"""How often an operation is begun anew, as a loop or a caller would, before it counts as stuck."""


@dataclass(slots=True)
class Nodes:
    """The database as two nodes see it: one through the proxy, one directly."""

    proxy: Proxy
    proxied: Database
    direct: Database

    async def new_tenant(self) -> int:
        async with self.direct.write() as connection:
            created = await tenant_store.create(connection, f"sweep-{uuid4().hex}")
        assert created is not None
        return created


@asynccontextmanager
async def nodes(server: Embedded, dsn: str) -> AsyncIterator[Nodes]:
    """Open both ways to one database."""
    login = server.credentials.login
    with scratch() as directory:
        async with proxied(directory, login) as proxy:
            over = await opening.connect(through(dsn, login.host, directory), writers=4, readers=2)
            direct = await opening.connect(dsn, writers=6, readers=2)
            try:
                yield Nodes(proxy, over, direct)
            finally:
                proxy.arm(Plan())
                await over.close()
                await direct.close()


class Operation(ABC):
    """Something that a node does, and what must hold afterwards whatever was lost meanwhile."""

    name: ClassVar[str]
    # Beyond so many statements it does the same again and again.
    positions: ClassVar[int] = 100

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes

    @abstractmethod
    async def prepare(self) -> None:
        """Make what the operation needs, directly."""

    @abstractmethod
    async def act(self) -> None:
        """Do it once, through the proxy; it may fail."""

    async def meanwhile(self) -> None:  # noqa: B027 - most need nothing of the other node
        """Let the other node work while the first does not know yet that it was cut."""

    @abstractmethod
    async def finish(self) -> None:
        """Let both nodes go on until nothing is left to do."""

    @abstractmethod
    async def violations(self) -> list[str]:
        """Say what is wrong in the end."""


class Row(NamedTuple):
    """One line of the table."""

    operation: str
    position: str
    fault: str
    violations: list[str]


OWN_COMMITS = frozenset({"job_accept", "payment_accept"})
"""Statements that are a transaction of their own, by the names of their queries or functions."""


class Sweep:
    """Every position of one operation, with some faults."""

    def __init__(self, nodes: Nodes, make: type[Operation]) -> None:
        self._nodes = nodes
        self._make = make

    async def statements(self) -> list[str]:
        """Run once without a fault: what is sent, and nothing may be wrong."""
        plan = Plan()
        row = await self._run(plan, "none")
        assert not row.violations, row
        return plan.seen

    async def commits(self, faults: Iterable[Fault]) -> list[Row]:
        """Let one commit suffer, each in turn: where most is at stake."""
        seen = (await self.statements())[: self._make.positions]
        return [
            await self._run(Plan(fault, position), f"{position + 1} {name}")
            for position, name in enumerate(seen)
            if name == "COMMIT" or name in OWN_COMMITS
            for fault in faults
        ]

    async def at(self, name: str, fault: Fault) -> list[Row]:
        """Let the first statement of a name suffer."""
        seen = await self.statements()
        return [await self._run(Plan(fault, seen.index(name)), name)]

    async def single(self, faults: Iterable[Fault]) -> list[Row]:
        """Let one statement suffer, each in turn."""
        # The second run counts: the first has opened connections and filled the caches.
        await self.statements()
        seen = await self.statements()
        return [
            await self._run(Plan(fault, position), f"{position + 1} {name}")
            for fault in faults
            for position, name in enumerate(seen[: self._make.positions])
        ]

    async def every(self, faults: Iterable[Fault], steps: Sequence[int]) -> list[Row]:
        """Let every n-th statement suffer until the operation has come through."""
        return [
            await self._run(Plan(fault, every=step), f"every {step}")
            for fault in faults
            for step in steps
        ]

    async def _run(self, plan: Plan, position: str) -> Row:
        operation = self._make(self._nodes)
        plan.meanwhile = operation.meanwhile
        await operation.prepare()
        self._nodes.proxy.arm(plan)
        wrong = await self._act(operation, plan)
        self._nodes.proxy.arm(Plan())
        await self._nodes.proxy.arrived()
        await operation.finish()
        wrong += await operation.violations()
        row = Row(operation.name, position, plan.fault or "none", wrong)
        if wrong:
            print(row)
        return row

    async def _act(self, operation: Operation, plan: Plan) -> list[str]:
        """Do it; where everything fails again and again, as often as a loop would."""
        for _ in range(ACTS_MOST):
            try:
                async with asyncio.timeout(ACT_SECONDS):
                    await operation.act()
            except TimeoutError as error:
                return [f"it did not come back in {ACT_SECONDS:.0f} s: {error!r}"]
            except Exception:
                if not plan.hits:
                    raise
                if plan.every and plan.hits <= plan.hits_most:
                    continue
            return []
        return [f"it did not come through in {ACTS_MOST} attempts"]


def table(rows: Iterable[Row]) -> str:
    """Lay the rows out: operations and positions down, faults across, violations within."""
    rows = list(rows)
    faults = list(dict.fromkeys(row.fault for row in rows))
    cells: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for row in rows:
        cells[row.operation, row.position][row.fault] = len(row.violations)
    lines = [f"| operation | position | {' | '.join(faults)} |", "|---" * (len(faults) + 2) + "|"]
    for (operation, position), found in cells.items():
        values = " | ".join(str(found.get(fault, "")) for fault in faults)
        lines.append(f"| {operation} | {position} | {values} |")
    return "\n".join(lines)


def summary(rows: Sequence[Row]) -> str:
    """Give one line for an operation, as docs/evidence/cuts.md shows it."""
    positions = {row.position for row in rows if not row.position.startswith("every")}
    violations = sum(len(row.violations) for row in rows)
    faults = len({row.fault for row in rows})
    return f"| {rows[0].operation} | {len(positions)} | {faults} | {len(rows)} | {violations} |"
