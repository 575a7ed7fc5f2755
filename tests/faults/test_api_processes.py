"""Several processes answer the API on one port: started, kept and stopped by the first."""

import asyncio
import os
import random
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from conftest import eventually
from postdate.http.listener import bind, bind_beside
from postdate.node import api_process
from postdate.node.api_process import environment, share
from postdate.node.settings import ProcessSettings, load
from postdate.words.error import StartError
from support.log import capture_logs
from support.serve_process import Served


def test_processes_share_one_budget_of_connections() -> None:
    asked = ProcessSettings(api_processes=3, writers=9, readers=8, connections=300)
    own = share(asked)
    assert (own.writers, own.readers, own.connections) == (3, 2, 100)
    given = environment(own, 8080, 2)
    assert (given["POSTDATE_WRITERS"], given["POSTDATE_API_PROCESSES"]) == ("3", "1")
    assert load(environ=given).port == 8080


def test_too_many_processes_for_the_connections_are_refused() -> None:
    with pytest.raises(StartError, match="needs POSTDATE_WRITERS of at least 10"):
        load({"api_processes": 5})


def test_a_process_that_starts_takes_no_connection_before_it_listens() -> None:
    with bind("127.0.0.1", 0, shared=True) as first:
        first.settimeout(5)
        port = first.getsockname()[1]
        with bind_beside("127.0.0.1", port) as starting:
            for _ in range(32):
                with socket.create_connection(("127.0.0.1", port), 5):
                    first.accept()[0].close()
            starting.listen()
            with pytest.raises(StartError):
                bind("127.0.0.1", port)


@pytest.mark.parametrize("says", ["", "import os; os.write(1, b'.'); "])
async def test_one_that_says_no_more_that_it_is_alive_is_ended(
    monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    """As after SIGSTOP, or in a loop that never ends: the kernel still gives it connections."""
    monkeypatch.setattr(api_process, "START_SECONDS", 0.5)
    monkeypatch.setattr(api_process, "SILENT_SECONDS", 0.1)
    silent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"{says}import time; time.sleep(60)", stdout=asyncio.subprocess.PIPE
    )
    with capture_logs() as logs:
        await api_process._until_silent(silent)
    assert await silent.wait() == -signal.SIGKILL
    assert [line["event"] for line in logs] == ["api_process.silent"]


async def test_one_that_lives_is_left_alone_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_process, "SILENT_SECONDS", 5.0)
    beats = "import os, time; [(os.write(1, b'.'), time.sleep(0.05)) for _ in range(5)]"
    alive = await asyncio.create_subprocess_exec(
        sys.executable, "-c", beats, stdout=asyncio.subprocess.PIPE
    )
    await api_process._until_silent(alive)
    assert await alive.wait() == 0


def _others(served: Served) -> list[psutil.Process]:
    assert served.process
    return [each for each in psutil.Process(served.process.pid).children() if _answers(each)]


def _answers(process: psutil.Process) -> bool:
    """Say whether it is one of the API's; a process may end while one looks at it."""
    try:
        return "--parent" in process.cmdline()
    except psutil.Error:
        return False


def lasting_ports() -> int:
    """Return the first of two free ports that no client's connection is given meanwhile."""
    for port in random.sample(range(20_000, 32_000, 2), 50):
        with socket.socket() as one, socket.socket() as other, suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 1))
            return port
    raise RuntimeError("no two free ports were found")


async def test_one_that_is_killed_comes_back_and_all_end_together(tmp_path: Path) -> None:
    alone = lasting_ports()
    env = {"POSTDATE_API_PROCESSES": "2", "POSTDATE_METRICS_PORT": str(alone)}
    served = Served(tmp_path / "data", env=env)
    other = Served(tmp_path / "data", port=alone + 1)
    await served.start()
    try:
        await served.ready()
        await other.ready()
        [first] = _others(served)
        os.kill(first.pid, signal.SIGKILL)
        await eventually(lambda: _replaced(served, first.pid), 60, 0.05)
        await other.ready()
        assert (await other.get("/api/v1/whoami", served.key))[0] == 200
        [second] = _others(served)
    finally:
        code = await served.stop()
    assert code == 0
    assert not second.is_running()
    assert "api_process.ended" in served.log.read_text()


async def _replaced(served: Served, pid: int) -> bool:
    return [each for each in _others(served) if each.pid != pid] != []
