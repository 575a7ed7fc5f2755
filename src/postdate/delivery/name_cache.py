"""The addresses of names, for a while: resolved and judged by the guard."""

import asyncio
import time
from typing import Final, NamedTuple

from postdate.delivery.guard import Guard

CACHE_SECONDS: Final = 30.0
"""How long a resolved and judged name is used for new connections."""

NAMES: Final = 4096


class _Resolved(NamedTuple):
    until: float
    addresses: list[str]


class NameCache:
    """Resolves each name once at a time for a tenant, however many of its calls need it."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._known: dict[tuple[str, int], _Resolved] = {}
        self._asking: dict[tuple[int, str, int], asyncio.Task[list[str]]] = {}

    async def resolve(self, tenant_id: int, host: str, port: int) -> list[str]:
        """Return the addresses of a name, each time beginning with another one."""
        found = self._known.get((host, port))
        if found is not None and time.monotonic() < found.until:
            found.addresses.append(found.addresses.pop(0))
            return list(found.addresses)
        asked = (tenant_id, host, port)
        if asked not in self._asking:
            self._asking[asked] = task = asyncio.create_task(self._ask(tenant_id, host, port))
            task.add_done_callback(lambda done: self._answered(asked, done))
        # A call that gives up must not take the answer away from the others that wait for it.
        return list(await asyncio.shield(self._asking[asked]))

    async def _ask(self, tenant_id: int, host: str, port: int) -> list[str]:
        addresses = await self._guard.resolve(tenant_id, host, port)
        if len(self._known) >= NAMES:
            self._known.clear()
        if addresses:
            self._known[host, port] = _Resolved(time.monotonic() + CACHE_SECONDS, addresses)
        return addresses

    def _answered(self, asked: tuple[int, str, int], done: "asyncio.Task[list[str]]") -> None:
        del self._asking[asked]
        if not done.cancelled():
            done.exception()  # every call that asked may have given up already

    def clear(self) -> None:
        """Forget every name."""
        self._known.clear()

    def close(self) -> None:
        """Stop waiting for names."""
        for task in self._asking.values():
            task.cancel()
