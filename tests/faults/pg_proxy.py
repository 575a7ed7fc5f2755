"""A PostgreSQL proxy that loses what a test tells it to, deterministically.

It stands on a unix socket before the tests' server and lets the log-in pass as it is. It reads the
frames of the protocol in both directions, so it knows each statement by name and when the server
has answered it. A statement is what is executed and answered: preparing one is not counted, nor is
what the driver asks about types, because both depend on how old a connection is.
"""

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from postdate.database.connection.query import queries
from postdate.database.embedded.credentials import Login
from support.citus import Login as CitusLogin

CANCEL_REQUEST: Final = 80877102
LATE_SECONDS: Final = 0.05
AWAY_SECONDS: Final = 0.3
REFUSAL: Final = "DO $$ BEGIN RAISE 'forced' USING ERRCODE = 'out_of_memory'; END $$"
_PARTS: Final = (b"P", b"B", b"D", b"E", b"C")
"""Messages that the server answers only when one follows that ends the group."""

_DRIVERS_OWN: Final = (
    "typeinfo_tree",
    "pg_catalog.pg_type",
    "current_setting('jit')",
    "SET transaction_timeout",
    "FROM pg_extension",
    "FROM pg_dist_partition",
    "SET plan_cache_mode",
)
_CALL: Final = re.compile(r"SELECT (\w+)\((?:\$\d+, )*ROW\(")
"""A statement that is made from a list of columns has the name of its function."""


class Fault(StrEnum):
    """What happens to one statement; the first five also end its connection."""

    STATEMENT = "statement lost"
    ANSWER = "answer lost"
    LATE = "arrives late"
    AWAY = "lost, database away"
    GONE = "done, database away"
    REFUSED = "refused"
    DELAY = "delayed"


async def wait_a_moment(seconds: float) -> None:
    """Let time pass that is part of a fault, or of two nodes at work."""
    await asyncio.sleep(seconds)


async def _nothing() -> None:
    pass


@dataclass(slots=True)
class Plan:
    """Which statements suffer: the one at a position, or every n-th.

    `meanwhile` runs when the server has done its part and before the client learns of the fault.
    """

    fault: Fault | None = None
    position: int = -1
    every: int = 0
    hits_most: int = 6
    meanwhile: Callable[[], Awaitable[None]] = _nothing
    seen: list[str] = field(default_factory=list)
    hits: int = 0

    def next(self, name: str) -> Fault | None:
        """Count a statement, and say what happens to it."""
        number = len(self.seen)
        self.seen.append(name)
        if number != self.position and (not self.every or (number + 1) % self.every):
            return None
        self.hits += 1
        return self.fault if self.hits <= self.hits_most else None


class Proxy:
    """One listening socket before one server."""

    def __init__(self, server_socket: Path) -> None:
        self._server_socket = server_socket
        self._links: set[_Link] = set()
        self._started: set[asyncio.Future[None]] = set()
        self._away = False
        self._silent = False
        self.plan = Plan()

    def arm(self, plan: Plan) -> Plan:
        """Count from here on, and fail as planned."""
        self.plan = plan
        return plan

    def start(self, work: Awaitable[None]) -> asyncio.Future[None]:
        """Begin what a fault leaves under way."""
        started = asyncio.ensure_future(work)
        self._started.add(started)
        started.add_done_callback(self._started.discard)
        return started

    def go_away(self, last: "_Link | None" = None, seconds: float = AWAY_SECONDS) -> None:
        """Break every connection but the one at fault, and refuse new ones for a moment."""
        self._away = True
        for link in self._links - {last}:
            link.end()
        self.start(self._come_back(seconds))

    async def _come_back(self, seconds: float) -> None:
        await wait_a_moment(seconds)
        self._away = False

    async def fall_silent(self) -> None:
        """Swallow every byte from now on, and close nothing: nobody learns that nobody is there."""
        self._silent = True
        for link in self._links:
            link.silent = True

    def speak_again(self) -> None:
        """Carry new connections; those that fell silent stay so."""
        self._silent = False

    async def arrived(self) -> None:
        """Wait until everything that was to come late has come."""
        while self._started:
            await asyncio.gather(*self._started)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until either side ends it, or a fault does."""
        link = None
        try:
            if self._away:
                return
            if self._silent:
                await reader.read(-1)
                return
            theirs = await asyncio.open_unix_connection(str(self._server_socket))
            link = _Link(self, reader, writer, *theirs)
            self._links.add(link)
            await link.run()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()
            # What the client ends in silence, the server is not told of.
            if link is not None and not link.silent:
                link.end()
                self._links.discard(link)

    async def close(self) -> None:
        """End every connection."""
        await self.arrived()
        for link in set(self._links):
            link.end()


@asynccontextmanager
async def proxied(directory: Path, login: Login | CitusLogin) -> AsyncIterator[Proxy]:
    """Listen in a directory, as a server of its own would."""
    name = f".s.PGSQL.{login.port}"
    proxy = Proxy(Path(login.host) / name)
    listening = await asyncio.start_unix_server(proxy.serve, str(directory / name))
    try:
        yield proxy
    finally:
        listening.close()
        await proxy.close()


def through(dsn: str, server_host: str, directory: Path) -> str:
    """Give the address that leads through the proxy."""
    return dsn.replace(quote(server_host), quote(str(directory)))


class _Link:
    """One connection: the client's side, the server's side, and what was prepared on it."""

    def __init__(
        self,
        proxy: Proxy,
        client: asyncio.StreamReader,
        to_client: asyncio.StreamWriter,
        server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        self._proxy = proxy
        self._client, self._to_client = client, to_client
        self._server, self._to_server = server, to_server
        self._prepared: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}
        self._answering: asyncio.Task[None] | None = None
        self._deaf = False
        self._mute = False
        self.silent = False
        self._answered = asyncio.Event()

    async def run(self) -> None:
        """Carry both directions until one of them ends."""
        if await self._begin():
            return
        self._answering = asyncio.create_task(_until_the_end(self._downstream()))
        asking = asyncio.create_task(_until_the_end(self._upstream()))
        try:
            await asyncio.wait([asking, self._answering], return_when=asyncio.FIRST_COMPLETED)
            if self._deaf:  # the fault under way says when the client learns of it
                await asking
        finally:
            asking.cancel()

    def end(self) -> None:
        """Break both sides off; a fault under way ends the server's side itself."""
        self._to_client.transport.abort()
        if not self._deaf:
            self._to_server.transport.abort()

    async def _begin(self) -> bool:
        """Pass the first message, which has no type; say whether it was all there is."""
        head = await self._client.readexactly(8)
        length, code = struct.unpack("!II", head)
        self._to_server.write(head + await self._client.readexactly(length - 8))
        return bool(code == CANCEL_REQUEST)

    async def _upstream(self) -> None:
        group: list[_Message] = []
        while not self._deaf:
            group.append(await _message(self._client))
            if group[-1].kind in _PARTS:
                continue
            name = self._name(group)
            fault = self._proxy.plan.next(name) if name else None
            data = b"".join(each.data for each in group)
            group = []
            if fault is None:
                self._send(data)
            else:
                await self._suffer(fault, data)

    def _send(self, data: bytes) -> None:
        if not self.silent:
            self._to_server.write(data)

    async def _downstream(self) -> None:
        while True:
            message = await _message(self._server)
            if not (self._deaf or self._mute or self.silent):
                self._to_client.write(message.data)
            if message.kind == b"Z":
                self._answered.set()

    async def _suffer(self, fault: Fault, data: bytes) -> None:
        proxy = self._proxy
        match fault:
            case Fault.DELAY:
                await asyncio.wait([proxy.start(proxy.plan.meanwhile())], timeout=LATE_SECONDS)
                self._send(data)
            case Fault.LATE:
                self._deaf = True
                proxy.start(self._arrive_late(data))
            case Fault.REFUSED:
                await self._refuse(data)
            case Fault.STATEMENT | Fault.ANSWER | Fault.AWAY | Fault.GONE:
                self._deaf = True
                if fault in {Fault.ANSWER, Fault.GONE}:
                    await self._ask(data)
                await self._hang_up()
                if fault in {Fault.AWAY, Fault.GONE}:
                    proxy.go_away(self)
                await proxy.plan.meanwhile()

    async def _refuse(self, data: bytes) -> None:
        """Let the server answer with an error; a refused commit has rolled back."""
        if data == _simple("COMMIT;"):
            self._mute = True
            await self._ask(_simple("ROLLBACK"))
            self._mute = False
        self._to_server.write(_simple(REFUSAL))

    async def _arrive_late(self, data: bytes) -> None:
        await wait_a_moment(LATE_SECONDS)
        await self._ask(data)
        await self._hang_up()

    async def _ask(self, data: bytes) -> None:
        """Send a statement and wait until the server is done with it."""
        self._answered.clear()
        self._to_server.write(data)
        await self._answered.wait()

    async def _hang_up(self) -> None:
        """End the server's side, and wait until it has rolled back and is gone."""
        assert self._answering is not None
        self._to_server.write_eof()
        await self._answering
        self._to_server.transport.abort()

    def _name(self, group: Sequence["_Message"]) -> str | None:
        """Name what a group executes; None for what is only prepared, closed or the driver's."""
        found = None
        for message in group:
            parts = message.body.split(b"\0", 2)
            match message.kind:
                case b"P":
                    self._prepared[parts[0]] = parts[1].decode()
                case b"B":
                    self._portals[parts[0]] = self._prepared[parts[1]]
                case b"E":
                    found = self._portals[parts[0]]
                case b"Q":
                    found = parts[0].decode()
        if found is None or any(each in found for each in _DRIVERS_OWN):
            return None
        if made := _CALL.match(found):
            return made[1]
        return _names().get(found) or " ".join(found.rstrip(";").split())[:40]


class _Message(NamedTuple):
    kind: bytes
    body: bytes

    @property
    def data(self) -> bytes:
        return self.kind + struct.pack("!I", len(self.body) + 4) + self.body


def _simple(text: str) -> bytes:
    return _Message(b"Q", text.encode() + b"\0").data


async def _message(reader: asyncio.StreamReader) -> _Message:
    kind, length = struct.unpack("!cI", await reader.readexactly(5))
    return _Message(kind, await reader.readexactly(length - 4))


async def _until_the_end(carrying: Coroutine[Any, Any, None]) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        await carrying


@cache
def _names() -> dict[str, str]:
    return {text: name for name, text in queries().items()}
