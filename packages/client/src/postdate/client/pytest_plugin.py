"""A pytest plugin: `postdate_server`, a real server for the tests of your application.

`postdate` is a tenant of its own for each test, whose time stands still until the test advances it.

It is loaded by itself wherever postdate is installed, and starts nothing until a test asks.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from postdate.client.client import Client
    from postdate.client.models import ClockEntry

READY_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0


class PostdateServer:
    """A running server with an admin key of its own; it is gone after the tests."""

    def __init__(self, url: str, key: str, internal_token: str = "") -> None:
        self.url = url
        self.key = key
        self.internal_token = internal_token
        self._operator: Client | None = None

    def client(self) -> "Client":
        """Make a client of this server; use it as a context manager."""
        from postdate.client.client import Client

        return Client(self.url, self.key)

    def new_tenant(self, clock_at: datetime | None = None) -> "TestTenant":
        """Create a tenant in test mode, whose clock begins at an instant or at present."""
        from postdate.client.client import Client

        if self._operator is None:
            self._operator = Client(self.url, self.key, internal_token=self.internal_token)
        name = f"test-{secrets.token_hex(8)}"
        made = self._operator.tenants.create(name=name, test=True, clock_at=clock_at)
        return TestTenant(name, self.url, str(made.key), Client(self.url, made.key))

    def close(self) -> None:
        """Close the connections of the fixture itself."""
        if self._operator is not None:
            self._operator.close()


@dataclass(slots=True)
class TestTenant:
    """A tenant in test mode, a client of it, and its clock."""

    __test__ = False  # it is no test of pytest's

    name: str
    url: str
    key: str
    client: "Client"

    @property
    def now(self) -> datetime:
        """Return what its clock shows."""
        return self.client.test_clock.get().at

    def advance(self, by: str | timedelta) -> "list[ClockEntry]":
        """Let time pass: run everything that is due meanwhile, and return what happened."""
        return self._advance(by=by if isinstance(by, str) else f"{round(by.total_seconds())}s")

    def advance_to(self, to: datetime) -> "list[ClockEntry]":
        """Let time pass until an instant, and return what happened."""
        return self._advance(to=to)

    def _advance(self, **how: Any) -> "list[ClockEntry]":
        clock = self.client.test_clock
        done = clock.advance(**how, idempotency_key=secrets.token_hex(16))
        while not done.finished:
            done = clock.advance()
        return list(clock.list_entries(advance=done.advance))


@pytest.fixture
def postdate(postdate_server: PostdateServer) -> "Iterator[TestTenant]":
    """Give the test a tenant of its own, whose time stands still until `.advance("1h")`."""
    tenant = postdate_server.new_tenant()
    try:
        yield tenant
    finally:
        tenant.client.close()


@pytest.fixture(scope="session")
def postdate_server() -> Iterator[PostdateServer]:
    """Start a whole server with its own PostgreSQL; webhooks may reach this machine."""
    with started_server() as running:
        yield running


@contextmanager
def started_server() -> Iterator[PostdateServer]:
    """Run a server in a directory of its own until the block ends."""
    # A short path, which others may pass: the database's socket lies in it, and may have a user
    # of its own.
    directory = Path(tempfile.mkdtemp(prefix="pd"))
    directory.chmod(0o711)
    port, token = _free_port(), secrets.token_hex(16)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ |= {
        "POSTDATE_DATA_DIR": str(directory / "data"),
        "POSTDATE_PORT": str(port),
        "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "POSTDATE_INTERNAL_TOKEN": token,
    }
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [_command(), "serve"], env=environ, stdout=log, stderr=log, start_new_session=True
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, process, directory / "log")
        key = (directory / "data" / "admin.key").read_text().strip()
        running = PostdateServer(url, key, token)
        yield running
        running.close()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS)
        shutil.rmtree(directory, ignore_errors=True)


def _command() -> str:
    beside = Path(sys.executable).with_name("postdate")
    return str(beside) if beside.exists() else "postdate"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):  # noqa: S310 - our own
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    raise RuntimeError(f"postdate did not start:\n{log.read_text()[-2000:]}")
