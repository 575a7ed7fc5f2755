"""Faults beside the transaction path: clocks, disks, logs, rights, loops, restarts, neighbours."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Final

import msgspec

from postdate.database.connection.database import WRITER
from postdate.database.connection.error import DatabaseError
from postdate.database.connection.session import DatabaseSession
from postdate.database.embedded import Embedded
from postdate_lab.chaos import database as store
from postdate_lab.chaos import side_store
from postdate_lab.chaos.guest import Guest
from postdate_lab.chaos.plan import Fault
from postdate_lab.chaos.process import Process
from postdate_lab.chaos.proxy import Proxy
from postdate_lab.chaos.small_disk import SmallDisk
from postdate_lab.chaos.wrong_clock import LEAPS, WrongClock

MISSED: Final = "missed: "
"""How the record of a fault begins that met nothing to disturb; it is not counted."""

REACHED_NONE: Final = "reached no table"
"""What a misbehaving login must come to: anything else is a violation."""

APART_SECONDS: Final = 1.0
"""How long after one process the next is restarted."""

CONNECT_TRIES: Final = 10

Way = Callable[[Fault], Awaitable[str]]


class Surroundings(msgspec.Struct, kw_only=True):
    """What a run's processes stand on, and what can be disturbed there."""

    processes: Sequence[Process]
    server: Embedded
    proxy: Proxy
    clock: WrongClock | None
    disk: SmallDisk | None
    watching: asyncio.Task[None]
    """The supervisor of the database, which a fault suspends."""

    def unwatch(self) -> None:
        """End the supervisor that watches now."""
        self.watching.cancel()


class SideFaults:
    """Disturbs what belongs to this run, and puts it right again."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._turn = count()
        self.ways: Mapping[str, Way] = {
            "hold": self._hold,
            "log": self._log,
            "disk": self._disk,
            "clock": self._clock,
            "half_open": self._half_open,
            "one_way": self._one_way,
            "revoke": self._revoke,
            "table": self._lock_table,
            "supervisor": self._supervisor,
            "guest": self._guest,
            "restart": self._restart,
            "apis": self._kill_apis,
        }

    def _one(self, fault: Fault) -> Process:
        return self._around.processes[fault.aim % len(self._around.processes)]

    async def _hold(self, fault: Fault) -> str:
        """Hold the event loop of a process; its other threads go on."""
        process = self._one(fault)
        if not process.send(signal.SIGUSR2):
            return f"{MISSED}was down"
        await asyncio.sleep(fault.seconds)
        return process.name

    async def _log(self, fault: Fault) -> str:
        """Start a process again with a log that cannot be written, then with its own."""
        process = self._one(fault)
        process.lost_log = "full" if fault.aim % 2 else "unread"
        process.send(signal.SIGKILL)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            said = f"{process.name}: {process.lost_log}"
            process.lost_log = None
            process.send(signal.SIGKILL)
        return said

    async def _disk(self, fault: Fault) -> str:
        """Fill the disk of data, write-ahead log and logs."""
        disk = self._around.disk
        if disk is None:
            return f"{MISSED}no disk of its own"
        try:
            filled = await asyncio.to_thread(disk.fill)
            await asyncio.sleep(fault.seconds)
        finally:
            disk.heal()
        return f"{filled} MB filled"

    async def _clock(self, fault: Fault) -> str:
        """Let the database's clock leap, and come back."""
        clock = self._around.clock
        if clock is None:
            return f"{MISSED}no library for it"
        leap = LEAPS[fault.aim % len(LEAPS)]
        clock.shift(leap)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            clock.shift("+0")
        return leap

    async def _half_open(self, fault: Fault) -> str:
        """Let clients vanish without the server's knowledge: its sessions keep their locks."""
        gone = self._around.proxy.half_open()
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            self._around.proxy.heal()
        return f"{gone} half open"

    async def _one_way(self, fault: Fault) -> str:
        """Carry statements but no answers, or answers but no statements; then break off."""
        asking = bool(fault.aim % 2)
        self._around.proxy.one_way(asking=asking)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            self._around.proxy.heal()
            cut = self._around.proxy.cut()
        return f"{cut} {'asked only' if asking else 'answered only'}"

    async def _revoke(self, fault: Fault) -> str:
        """Take the writer's rights on a table, and give them back."""
        async with self._superuser() as session:
            found = await side_store.tables(session)
            table = found[next(self._turn) % len(found)]
            lost = await side_store.rights(session, table, WRITER)
            if not lost:
                return f"{MISSED}{table} is not written"
            await side_store.revoke(session, table, WRITER, lost)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            await self._give_back(table, lost)
        return f"{', '.join(lost)} on {table}"

    async def _give_back(self, table: str, lost: Sequence[str]) -> None:
        """Give rights back as soon as the database answers."""
        given = False
        while not given:
            # Without them, the run would end in nothing.
            with suppress(Exception):
                async with self._superuser() as session:
                    await side_store.grant(session, table, WRITER, lost)
                    given = True
            await asyncio.sleep(APART_SECONDS)

    async def _lock_table(self, fault: Fault) -> str:
        """Lock a table against everybody: each in turn."""
        async with self._superuser() as session, session.transaction():
            found = await side_store.tables(session)
            table = found[next(self._turn) % len(found)]
            await side_store.lock_table(session, table)
            await asyncio.sleep(fault.seconds)
        return table

    async def _supervisor(self, fault: Fault) -> str:
        """Kill the database while its supervisor is suspended."""
        around = self._around
        pid = around.server.pid
        if pid is None:
            return f"{MISSED}was down"
        around.watching.cancel()
        await asyncio.gather(around.watching, return_exceptions=True)
        try:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(fault.seconds)
        finally:
            around.watching = asyncio.create_task(around.server.watch())
        return f"{fault.seconds:g} s without a supervisor"

    async def _guest(self, fault: Fault) -> str:
        """Let a login that is bound to a tenant do its worst."""
        async with self._superuser() as session:
            found = await side_store.tables(session)
        guest = Guest(self._around.server.credentials.login.host, found)
        reached = await guest.misbehave(fault.seconds)
        return f"reached {', '.join(reached)}" if reached else REACHED_NONE

    async def _restart(self, _: Fault) -> str:
        """Restart every process, one after the other, as an upgrade does."""
        return await self._all_in_turn(self._around.processes, signal.SIGTERM)

    async def _kill_apis(self, _: Fault) -> str:
        """Kill the API processes, one after the other."""
        apis = [each for each in self._around.processes if each.name.startswith("api")]
        return await self._all_in_turn(apis, signal.SIGKILL)

    async def _all_in_turn(self, processes: Sequence[Process], number: int) -> str:
        sent = 0
        for process in processes:
            sent += process.send(number)
            await asyncio.sleep(APART_SECONDS)
        return f"{sent} restarted" if sent else f"{MISSED}all were down"

    @asynccontextmanager
    async def _superuser(self) -> AsyncIterator[DatabaseSession]:
        session = await self._connected()
        try:
            yield session
        finally:
            session.terminate()

    async def _connected(self) -> DatabaseSession:
        """Connect as soon as the server answers: the fault before may have ended it."""
        dsn = self._around.server.credentials.superuser_dsn("postdate")
        for _ in range(CONNECT_TRIES):
            with suppress(DatabaseError, OSError):
                return await store.connect(dsn)
            await asyncio.sleep(APART_SECONDS)
        return await store.connect(dsn)
