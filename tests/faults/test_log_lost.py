"""The log and the first message cannot be written: the server starts, serves and survives."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import aiohttp
import pytest

from conftest import eventually, scratch
from support.serve_process import Served, postmaster_file

Streams = tuple[int | None, int | None]


def full(opened: ExitStack) -> Streams:
    """Both lead to a full disk."""
    disk = os.open("/dev/full", os.O_WRONLY)
    opened.callback(os.close, disk)
    return disk, disk


def unread(opened: ExitStack) -> Streams:
    """Both are pipes whose reader has ended."""
    ours, theirs = os.pipe()
    os.close(ours)
    opened.callback(os.close, theirs)
    return theirs, theirs


def closed(_: ExitStack) -> Streams:
    """The server gets neither."""
    return None, None


async def launch(served: Served, streams: Streams, *, level: str = "info") -> None:
    """Start with these as standard output and standard error."""
    out, err = streams
    shell = f'exec "$@" {">&-" if out is None else ""} {"2>&-" if err is None else ""}'
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ |= {
        "POSTDATE_DATA_DIR": str(served.directory),
        "POSTDATE_PORT": str(served.port),
        "POSTDATE_LOG_LEVEL": level,
    }
    served.process = await asyncio.create_subprocess_exec(
        "sh", "-c", shell, "sh", str(served.command), "serve",
        env=environ, start_new_session=True,
        stdout=subprocess.DEVNULL if out is None else out,
        stderr=subprocess.DEVNULL if err is None else err,
    )  # fmt: skip


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        one = Served(directory / "data")
        yield one
        if one.process and one.process.returncode is None:
            one.process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(one.process.wait(), 40)


def end_postgres(served: Served) -> int:
    """Give the server something to log."""
    pid = int(postmaster_file(served.directory).read_text().split()[0])
    os.kill(pid, signal.SIGQUIT)
    return pid


async def is_back(served: Served, ended: int) -> bool:
    with suppress(ValueError, FileNotFoundError, IndexError):
        pid = int(postmaster_file(served.directory).read_text().split()[0])
        return pid != ended and await served.is_ready()
    return False


async def dropped(served: Served) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"{served.url}/metrics") as answer:
        page = await answer.text()
    found = re.search(r"^postdate_log_dropped_total (\S+)$", page, re.MULTILINE)
    assert found
    return int(float(found[1]))


@pytest.mark.parametrize("broken", [full, unread, closed])
async def test_server_outlives_a_log_that_cannot_be_written(
    served: Served, broken: Callable[[ExitStack], Streams]
) -> None:
    with ExitStack() as opened:
        await launch(served, broken(opened))
        await served.ready()
        assert served.key
        ended = end_postgres(served)
        await eventually(lambda: is_back(served, ended), 40)
        assert (await dropped(served) > 0) is (broken is not closed)
        assert await served.stop() == 0


async def test_reader_that_does_not_read_holds_up_nobody(served: Served) -> None:
    ours, theirs = os.pipe()
    with ExitStack() as opened:
        opened.callback(os.close, ours)
        nothing = os.open(os.devnull, os.O_WRONLY)
        opened.callback(os.close, nothing)
        await launch(served, (nothing, theirs), level="debug")
        os.close(theirs)
        await served.ready()

        async def full_and_serving() -> bool:
            for _ in range(100):
                assert (await served.get("/healthz"))[0] == 200
            return await dropped(served) > 0

        await eventually(full_and_serving, 60, 0)
        said = b""

        def read_on() -> bool:
            nonlocal said
            said = said[-200:] + os.read(ours, 65536)
            return b'"log.dropped"' in said

        async def told() -> bool:
            await served.get("/healthz")
            return await asyncio.to_thread(read_on)

        await eventually(told, 30, 0)
        reading = await asyncio.create_subprocess_exec("cat", stdin=ours, stdout=nothing)
        assert await served.stop() == 0
        await reading.wait()


def test_sentence_of_a_refused_start_does_not_need_its_stream(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("postdate")),
        "serve",
        "--data-dir",
        str(tmp_path),
    ]
    with Path("/dev/full").open("wb") as disk:
        done = subprocess.run(
            command, env={"POSTDATE_PROT": "1"}, stdout=disk, stderr=disk, check=False, timeout=60
        )
    assert done.returncode == 1
