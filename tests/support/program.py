"""Programs as their readers run them: a free port, a call, and patience."""

import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import msgspec

PATIENCE_SECONDS = 30.0


def until(done: Callable[[], Any]) -> Any:
    """Ask until something is there, at most for a while; return it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := done()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ask(method: str, url: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(url, data, {"content-type": "application/json", **headers})
    request.method = method
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return answer.status, msgspec.json.decode(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, None
