"""Do the faults of a plan, on the same timeline as the life they disturb."""

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Final

from postdate.database.connection.session import DatabaseSession
from postdate_lab.chaos import database as store
from postdate_lab.chaos.broker import Broker
from postdate_lab.chaos.history import Recorder
from postdate_lab.chaos.plan import Fault
from postdate_lab.chaos.process import Process
from postdate_lab.chaos.side_fault import MISSED, SideFaults, Surroundings, Way

LOCK_ROWS: Final = 5
"""How many rows of each bucket are held."""


class Nemesis:
    """Ends, stops, cuts and holds what belongs to this run, and nothing else."""

    def __init__(self, record: Recorder, around: Surroundings, broker: Broker | None) -> None:
        self._record = record
        self._processes = around.processes
        self._server = around.server
        self._proxy = around.proxy
        self._broker = broker
        self._ways: dict[str, Way] = {
            **SideFaults(around).ways,
            "kill": self._kill,
            "zombie": self._zombie,
            "postmaster": self._postmaster,
            "backend": self._backend,
            "cut": self._cut,
            "silence": self._silence,
            "refuse": self._refuse,
            "lock": self._lock,
            "broker": self._kill_broker,
        }

    async def run(self, faults: Sequence[Fault]) -> None:
        """Do one fault after the other, each at its time or as soon as the one before is over."""
        for number, fault in enumerate(faults, 1):
            await asyncio.sleep(max(0.0, fault.at - self._record.now()))
            self._record("nemesis", "invoke", fault.name, number, aim=fault.aim)
            try:
                did = await self._ways[fault.name](fault)
            except Exception as error:  # noqa: BLE001 - what a fault meets must not end the run
                did = f"{MISSED}{type(error).__name__}"
            self._record("nemesis", "ok", fault.name, number, did=did)

    def _one(self, fault: Fault) -> Process:
        return self._processes[fault.aim % len(self._processes)]

    async def _kill(self, fault: Fault) -> str:
        """Kill a process; whoever keeps it starts it again."""
        process = self._one(fault)
        return process.name if process.send(signal.SIGKILL) else f"{MISSED}was down"

    async def _zombie(self, fault: Fault) -> str:
        """Stop a process for longer than its leases last, then resume it."""
        process = self._one(fault)
        if not process.send(signal.SIGSTOP):
            return f"{MISSED}was down"
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            process.send(signal.SIGCONT)
        return process.name

    async def _postmaster(self, _: Fault) -> str:
        """Kill the database server itself; its watchdog starts it again."""
        pid = self._server.pid
        if pid is None:
            return f"{MISSED}was down"
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return f"{MISSED}was down"
        return "killed"

    async def _backend(self, fault: Fault) -> str:
        """End some of the database's sessions in the middle of whatever they do."""
        connection = await self._superuser()
        try:
            return f"{await store.end_sessions(connection, fault.aim % 5 + 1)} ended"
        finally:
            await connection.close()

    async def _cut(self, _: Fault) -> str:
        return f"{self._proxy.cut()} cut"

    async def _silence(self, fault: Fault) -> str:
        """Let both sides wait, then break what waited."""
        self._proxy.silence()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            self._proxy.heal()
            cut = self._proxy.cut()
        return f"{cut} silent"

    async def _refuse(self, fault: Fault) -> str:
        """Break everything and let nobody in for a moment."""
        self._proxy.refusing = True
        cut = self._proxy.cut()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            self._proxy.heal()
        return f"{cut} refused"

    async def _lock(self, fault: Fault) -> str:
        """Hold rows as a forgotten session would, and roll back."""
        connection = await self._superuser()
        try:
            async with connection.transaction():
                table = ("account", "timer")[fault.aim % 2]
                held = await store.hold_rows(connection, table, LOCK_ROWS)
                await asyncio.sleep(fault.seconds)
        finally:
            await connection.close()
        return f"{held} rows of {table} held"

    async def _kill_broker(self, _: Fault) -> str:
        if self._broker is None:
            return f"{MISSED}there is none"
        return "killed" if self._broker.process.send(signal.SIGKILL) else f"{MISSED}was down"

    async def _superuser(self) -> DatabaseSession:
        dsn = self._server.credentials.superuser_dsn("postdate")
        return await store.connect(dsn)
