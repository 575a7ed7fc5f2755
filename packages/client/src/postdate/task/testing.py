"""Tests of tasks: time passes when the test says so, and what is due runs at once."""

import atexit
from collections.abc import Callable
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from postdate.client.portal import Portal
from postdate.client.worker import Worker

if TYPE_CHECKING:
    from postdate.client.pytest_plugin import PostdateServer, TestTenant


class TaskTime:
    """The clock of a tenant in test mode, and the tasks that become due on it."""

    def __init__(self, tenant: "TestTenant", worker: Callable[[], Worker]) -> None:
        self.tenant = tenant
        self._worker = worker

    @property
    def now(self) -> datetime:
        """Return what the clock shows."""
        return self.tenant.now

    def advance(self, by: str | timedelta) -> int:
        """Let time pass and run the tasks that are due then; return how many ran."""
        self.tenant.advance(by)
        return self.run_due()

    def advance_to(self, instant: datetime) -> int:
        """Let time pass until an instant and run what is due then; return how many ran."""
        self.tenant.advance_to(instant)
        return self.run_due()

    def run_due(self) -> int:
        """Run the tasks that are due now, and those that they schedule for now."""
        portal = Portal()
        try:
            return portal.run(self._worker().drain())
        finally:
            portal.close()


@lru_cache(maxsize=1)
def server_for_tests() -> "PostdateServer":
    """Start a server that ends with this process; every call returns the same."""
    from postdate.client.pytest_plugin import started_server

    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(started_server())
