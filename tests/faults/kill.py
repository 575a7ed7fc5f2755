"""Kill a process at a failpoint: a child does the operation and ends there by SIGKILL.

Children are forked by a process that has loaded everything and done nothing (`forkserver`); each
gets what was prepared, opens connections of its own, and shares nothing else with us. Afterwards
nodes that were not killed go on, and the operation says what is wrong.
"""

import ast
import asyncio
import gc
import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import forkserver, reduction
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final
from unittest import mock

from faults.sweep import Nodes, Operation
from postdate.api.endpoints import ENDPOINTS
from postdate.core import failpoint
from postdate.database.connection import opening
from postdate.database.connection.database import Database
from postdate.database.connection.writer import AFTER, BEFORE
from postdate.resource.resource import declared_by

SOURCE: Final = Path(failpoint.__file__).parents[1]
CHILD_SECONDS: Final = 30
COMMITS: Final = frozenset({"write", "after"})
TOOLS: Final = frozenset({"bench", "chaos"})
_children: Final = multiprocessing.get_context("forkserver")
_children.set_forkserver_preload(
    sorted(f"faults.{each.stem}" for each in Path(__file__).parent.glob("kill_*.py"))
)


def start_forking() -> None:
    """Start the process that forks the children; it must find what it is to load."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(paths)):
        forkserver.ensure_running()


class KillOperation(Operation):
    """An operation that a child does on connections of its own."""

    def carried(self) -> dict[str, Any]:
        """Return what a child is given: everything but connections and what needs them."""
        found = {}
        for name, value in vars(self).items():
            with suppress(TypeError, AttributeError, pickle.PicklingError):
                found[name] = pickle.loads(pickle.dumps(value))
        return found

    async def begin_anew(self) -> None:
        """Make again, in the child, what belongs to a node and not to the database."""


def named() -> set[str]:
    """Find every failpoint that the source names or declares, with the moments of commits."""
    found: list[str] = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                found += _names(node)
    found += [f"{name}.{moment}" for name in _declared() for moment in (BEFORE, AFTER)]
    assert len(found) == len(set(found)), "one name stands for one place"
    return set(found)


def nameless() -> set[str]:
    """Find the files of the program that write without a name."""
    return {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in TOOLS
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and _commits(node) and not _texts(node)
    }


def _declared() -> Iterator[str]:
    """Name the commits of declared changes."""
    for endpoint in ENDPOINTS:
        declared = declared_by(endpoint.handler)
        if declared is not None and declared.event:
            yield declared.failpoint


def _names(call: ast.Call) -> Iterator[str]:
    match call.func:
        case ast.Name(id="reach"):
            yield from _texts(call)
        case _ if _commits(call):
            yield from (f"{text}.{moment}" for text in _texts(call) for moment in (BEFORE, AFTER))


def _texts(call: ast.Call) -> list[str]:
    return [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]


def _commits(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(attr=attr, value=ast.Attribute(attr=of) | ast.Name(id=of)):
            return attr in COMMITS and (of.endswith("database") or of == "near")
    return False


@dataclass
class Killed:
    """What came of one child: the points it reached, how it ended, and what was wrong then."""

    operation: str
    point: str
    reached: list[str] = field(default_factory=list)
    code: int | None = None
    error: str = ""
    violations: list[str] = field(default_factory=list)

    @property
    def died(self) -> bool:
        return self.code == -signal.SIGKILL


async def kill(
    nodes: Nodes, dsn: str, make: type[KillOperation], point: str, time: int = 1
) -> Killed:
    """Kill a child the n-th time it reaches a point; without a point it lives to its end."""
    operation = make(nodes)
    killed = Killed(operation.name, point)
    await operation.prepare()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        with os.fdopen(writing, "wb") as end:
            arguments = make, operation.carried(), dsn, (point, time), _shared(end.fileno())
            child = _children.Process(target=_live, args=arguments)
            child.start()
        killed.code = await _ended(child)
        lines = pipe.read().decode().splitlines()
    killed.reached = [line[1:] for line in lines if line.startswith("+")]
    killed.error = "\n".join(line for line in lines if not line.startswith("+"))
    await operation.finish()
    killed.violations += await operation.violations()
    return killed


def _shared(number: int) -> Any:
    return reduction.DupFd(number)


async def _ended(child: ForkServerProcess) -> int | None:
    """Wait until a child is gone, without a thread."""
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(child.sentinel, gone.set)
    try:
        await gone.wait()
    finally:
        loop.remove_reader(child.sentinel)
    child.join()
    return child.exitcode


def _live(
    make: type[KillOperation], carried: dict[str, Any], dsn: str, fatal: tuple[str, int], pipe: Any
) -> None:
    """Be the child: do the operation, and die where it is told to."""
    signal.alarm(CHILD_SECONDS)
    gc.disable()  # it would only copy pages that are shared with the process that forked it
    writing = pipe.detach()
    failpoint.arm(_hook(fatal, writing))
    try:
        asyncio.run(_act(make, carried, dsn))
    except BaseException as error:  # noqa: BLE001 - the parent hears of it
        os.write(writing, f"{error!r}\n".encode())
    os._exit(0)


def _hook(fatal: tuple[str, int], writing: int) -> failpoint.Hook:
    point, left = fatal

    def reached(name: str) -> None:
        nonlocal left
        os.write(writing, f"+{name}\n".encode())
        if name == point:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return reached


async def _open(dsn: str) -> Database:
    """Open connections as they are used: most children die on their first."""
    writer = await opening.open_pool(
        dsn, opening.WRITER_SETTINGS, 3, seconds=CHILD_SECONDS, min_size=1
    )
    reader = await opening.open_pool(
        dsn, opening.READER_SETTINGS, 1, seconds=CHILD_SECONDS, min_size=0
    )
    database = Database(writer, reader)
    await database.synchronize()
    return database


async def _act(make: type[KillOperation], carried: dict[str, Any], dsn: str) -> None:
    database = await _open(dsn)
    operation = make(Nodes(None, database, database))  # type: ignore[arg-type] # nothing is cut
    vars(operation).update(carried)
    await operation.begin_anew()
    await operation.act()
