"""What every process of a measurement needs: a stopwatch and a free port."""

import socket
import time


class Stopwatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def rate(self, count: int) -> float:
        """Return how many a second that were."""
        return count / (time.monotonic() - self._began)


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
