"""Several processes answer the API on one port: started, kept and stopped by the first."""

import os
import signal
from pathlib import Path

import psutil
import pytest

from conftest import eventually
from postdate.model.error import StartError
from postdate.node.api_process import environment, share
from postdate.node.settings import ProcessSettings, load
from support.serve_process import Served, free_port


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


def _others(served: Served) -> list[psutil.Process]:
    assert served.process
    return [each for each in psutil.Process(served.process.pid).children() if _answers(each)]


def _answers(process: psutil.Process) -> bool:
    """Say whether it is one of the API's; a process may end while one looks at it."""
    try:
        return "--parent" in process.cmdline()
    except psutil.Error:
        return False


async def test_one_that_is_killed_comes_back_and_all_end_together(tmp_path: Path) -> None:
    alone = free_port()
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
