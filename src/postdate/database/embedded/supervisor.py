"""The embedded server as a whole: its directory, its start and stop, its watchdog."""

import asyncio
import contextlib
import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import asyncpg
import msgspec

from postdate.core.log import Log
from postdate.database.embedded import binaries, cluster, credentials, data_paths, roles, runas
from postdate.database.embedded.credentials import Credentials, Login
from postdate.database.embedded.judge import ProbeAnswer
from postdate.database.embedded.probe import CUT_OFF, UNANSWERED, ask
from postdate.database.embedded.pulse import Pulse
from postdate.database.embedded.server import PostgresServer
from postdate.database.embedded.thread import LoopThread
from postdate.words.error import StartError

EXIT_CHECK_SECONDS: Final = 0.1
PULSE_SECONDS: Final = 3.0
LOG_CHECK_SECONDS: Final = 60.0
REVIVE_PAUSE_SECONDS_MAX: Final = 2.0
FIND_SECONDS: Final = 15.0
"""How long a command waits for a server that may be there; one that is not is known at once."""

log = Log()


class Embedded:
    """A PostgreSQL server of our own in one data directory, held by one process at a time.

    Everything that waits for the server does so in a thread with a loop of its own: whatever holds
    the loop of the process is not taken for a server that does not answer.
    """

    def __init__(self, data_dir: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self._data_dir = data_dir.absolute()
        self._settings = dict(settings or {})
        self._locks: list[int] = []
        self._server: PostgresServer | None = None
        self._known: Credentials | None = None
        self._thread: LoopThread | None = None
        self._changing = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The postmaster's process, while it lives."""
        return self._server.pid if self._server else None

    @property
    def credentials(self) -> Credentials:
        """Everything the credentials file holds; only after a start."""
        if self._known is None:
            raise RuntimeError("the embedded server has not been started")
        return self._known

    async def start(self) -> Login:
        """Make the cluster if there is none, start or adopt its server, and ensure the roles."""
        if self._thread is None:
            # The lock is for the loop of that thread.
            self._thread, self._changing = LoopThread("postgres"), asyncio.Lock()
        try:
            return await self._thread.run(self._start())
        except BaseException:
            self._end_thread()
            raise

    async def stop(self) -> None:
        """Stop the server, in immediate mode if necessary, and unlock the directory."""
        if self._thread is not None:
            await self._thread.run(self._stop())
            self._end_thread()

    async def watch(self) -> None:
        """Keep the server serving until cancelled or stopped."""
        if self._thread is not None:
            await self._thread.run(self._watch())

    def doing(self) -> str:
        """Return what the server says it is doing, in a few words, while it gets ready."""
        server = self._server
        return server.doing() if server else "its directory is prepared"

    def _end_thread(self) -> None:
        if self._thread is not None:
            self._thread.close()
            self._thread = None

    async def _start(self) -> Login:
        async with self._changing:
            try:
                self._server = await asyncio.to_thread(self._prepare)
                await self._set_up(self._server)
            except UNANSWERED as error:
                await self._give_up()
                raise StartError(_explain(error, self._data_dir)) from error
            except BaseException:
                await self._give_up()
                raise
        log.info("postgres_ready", pid=self.pid, data_dir=str(self._data_dir))
        return self.credentials.login

    async def _set_up(self, server: PostgresServer) -> None:
        """Bring the server up and ensure its roles; begin again if it dies meanwhile."""
        done = None
        while done is None:
            await server.up()
            try:
                done = await server.answered(roles.ensure(self.credentials))
            except CUT_OFF as error:
                log.warning("postgres_cut_off", error=repr(error))
                await asyncio.sleep(EXIT_CHECK_SECONDS)

    async def _stop(self) -> None:
        async with self._changing:
            await self._give_up()

    async def _watch(self) -> None:
        with contextlib.closing(Pulse(self.credentials)) as pulse:
            beat, trim = Every(PULSE_SECONDS), Every(LOG_CHECK_SECONDS)
            while (server := self._server) is not None:
                await asyncio.sleep(EXIT_CHECK_SECONDS)
                try:
                    if not server.is_live() or (
                        beat.due() and not await server.answered(pulse.beat())
                    ):
                        pulse.close()
                        await self._revive(server)
                    if trim.due():
                        server.trim_log()
                except Exception:
                    # Whatever it was: a server without its watchdog is worse.
                    log.exception("postgres_watch_failed")
                    await asyncio.sleep(REVIVE_PAUSE_SECONDS_MAX)

    async def _revive(self, server: PostgresServer) -> None:
        pause = EXIT_CHECK_SECONDS
        began = time.monotonic()
        while True:
            async with self._changing:
                if self._server is not server:
                    return
                try:
                    await server.up()
                except (StartError, OSError) as error:
                    log.warning("postgres_down", reason=str(error))
                else:
                    break
            await asyncio.sleep(pause)
            pause = min(pause * 2, REVIVE_PAUSE_SECONDS_MAX)
        log.warning("postgres_revived", pid=server.pid, seconds=round(time.monotonic() - began, 2))

    def _prepare(self) -> PostgresServer:
        """Lock and check the directory; make and configure the cluster."""
        data_paths.prepare(self._data_dir)
        self._data_dir = self._data_dir.resolve()
        self._locks.append(data_paths.lock(self._data_dir))
        known = credentials.read(self._data_dir)
        user = runas.choose(_owner(self._data_dir, known))
        programs = binaries.locate(user)
        home = data_paths.home_of(self._data_dir, known) if known else self._new_home(user)
        exists = cluster.check(home, known, programs)
        data_paths.open_home(home, user)
        if home != self._data_dir:
            self._locks.append(data_paths.lock(home))
        socket = data_paths.socket_dir(home, user)
        self._known = known = self._record(known, home, socket)
        if not exists:
            cluster.make(home, known, programs, user)
        cluster.configure(home / data_paths.CLUSTER, socket, programs, user, self._settings)
        return PostgresServer(home, programs, user, known)

    def _new_home(self, user: runas.RunAs) -> Path:
        # A cluster without credentials is refused where it is, not created again elsewhere.
        if (self._data_dir / data_paths.CLUSTER).exists():
            return self._data_dir
        return data_paths.choose_home(self._data_dir, user)

    def _record(self, known: Credentials | None, home: Path, socket: Path) -> Credentials:
        """Write the credentials before the cluster: the rename of the cluster is the commit."""
        if known is None:
            name = "." if home == self._data_dir else str(home)
            wanted = credentials.make(name, str(socket))
        else:
            wanted = msgspec.structs.replace(
                known, login=msgspec.structs.replace(known.login, host=str(socket))
            )
        if wanted != known:
            credentials.write(self._data_dir, wanted)
        return wanted

    async def _give_up(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.down()
        while self._locks:
            os.close(self._locks.pop())


async def find(data_dir: Path) -> Login | None:
    """Find the running server of a data directory without starting it."""
    try:
        known = credentials.read(data_dir)
    except PermissionError as error:
        raise StartError(
            f"{data_dir / credentials.FILE} may not be read by this user; "
            "run the command as the user who runs the server."
        ) from error
    if known is None:
        return None
    cluster = data_paths.home_of(data_dir, known) / data_paths.CLUSTER
    try:
        async with asyncio.timeout(FIND_SECONDS):
            answer = await ask(known, cluster)
    except TimeoutError:
        return None
    return known.login if answer is ProbeAnswer.READY else None


def _owner(data_dir: Path, known: Credentials | None) -> int:
    """Return whose the cluster is, or the directory it will be made in."""
    home = data_paths.home_of(data_dir, known) if known else data_dir
    existing = home / data_paths.CLUSTER
    return (existing if existing.exists() else data_dir).stat().st_uid


class Every:
    """A timer that fires once per interval."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._next = time.monotonic()

    def due(self) -> bool:
        """Return whether the interval has passed, and start the next one if so."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


def _explain(error: Exception, data_dir: Path) -> str:
    if isinstance(error, asyncpg.DiskFullError) or getattr(error, "errno", 0) == errno.ENOSPC:
        return f"the disk of {data_dir} is full; free some space and start again."
    if not isinstance(error, OSError):
        return f"the database in {data_dir} could not be set up: {error}."
    return (
        f"{error.filename or data_dir} cannot be used ({error.strerror or error}); "
        "correct its permissions, or set POSTDATE_DATA_DIR to another directory."
    )
