"""A pytest plugin: `postdate_server`, a real server for the tests of your application.

It is loaded by itself wherever postdate is installed, and starts nothing until a test asks.
"""

import os
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
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from postdate.client.client import Client

READY_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0


class PostdateServer:
    """A running server with an admin key of its own; it is gone after the tests."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key

    def client(self) -> "Client":
        """Make a client of this server; use it as a context manager."""
        from postdate.client.client import Client

        return Client(self.url, self.key)


@pytest.fixture(scope="session")
def postdate_server() -> Iterator[PostdateServer]:
    """Start a whole server with its own PostgreSQL; webhooks may reach this machine."""
    # A short path, which others may pass: the database's socket lies in it, and may have a user
    # of its own.
    directory = Path(tempfile.mkdtemp(prefix="pd"))
    directory.chmod(0o711)
    port = _free_port()
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ |= {
        "POSTDATE_DATA_DIR": str(directory / "data"),
        "POSTDATE_PORT": str(port),
        "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
    }
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [_command(), "serve"], env=environ, stdout=log, stderr=log, start_new_session=True
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, process, directory / "log")
        yield PostdateServer(url, (directory / "data" / "admin.key").read_text().strip())
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
            time.sleep(0.1)
    raise RuntimeError(f"postdate did not start:\n{log.read_text()[-2000:]}")
