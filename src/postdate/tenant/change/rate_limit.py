"""Request limits of keys and tenants, across all nodes.

The tokens of a limit are in the database. A node takes them in chunks of a tenth of a second's
worth and spends them in memory, so that a request within its limits rarely waits for a round trip,
and one beyond them never does.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final
from uuid import UUID

from postdate.core.identity import Identity
from postdate.core.limit import Limit
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.lane.store import permit
from postdate.words.error import Code, RefusedError, refuse

CHUNK_SECONDS: Final = 0.1
MAX_REMEMBERED: Final = 10_000
"""Limits remembered; beyond it all are forgotten, at the price of the tokens in hand."""

_NOTHING: Final[Mapping[str, str]] = {}


class _Requests(Limit, frozen=True, gc=False):
    """A limit on requests: after a pause, one second's worth may come in a burst."""

    @property
    def burst(self) -> float:
        """Return how many may come at once."""
        return max(1.0, self.rate_per_second or 0.0)


@dataclass(slots=True)
class _Tokens:
    """The tokens of this node; if empty, it does not ask for more before `empty_until`."""

    tokens: int = 0
    empty_until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Rates:
    """Counts requests; does nothing without limits."""

    def __init__(self, database: Database, settings: Settings, node_id: UUID) -> None:
        self._database = database
        self._settings = settings
        self._node_id = node_id
        self._stocks: dict[str, _Tokens] = {}

    async def admit(self, actor: Identity) -> Mapping[str, str]:
        """Take a token of the key and one of the tenant, or refuse; return the headers to send."""
        by_key = float(self._settings.get("rate.key_per_second", actor.tenant_id))
        by_tenant = float(self._settings.get("rate.tenant_per_second", actor.tenant_id))
        if not by_key and not by_tenant:
            return _NOTHING
        remaining: list[tuple[str, int]] = []
        if by_key:
            remaining.append(("key", await self._take("key", actor.key_id, by_key)))
        if by_tenant:
            # A request that the tenant's limit refuses still uses the key's token.
            left = await self._take("tenant", str(actor.tenant_id), by_tenant)
            remaining.append(("tenant", left))
        return {
            "ratelimit-policy": _policy(by_key, by_tenant),
            "ratelimit": ", ".join([f'"{name}";r={left};t=1' for name, left in remaining]),
        }

    async def _take(self, noun: str, name: str, rate: float) -> int:
        """Take one token; return how many this node has left in hand."""
        stock = self._tokens_of(f"request:{noun}/{name}")
        if stock.tokens < 1:
            async with stock.lock:
                await self._fill(stock, _Requests(f"request:{noun}/{name}", None, rate))
        if stock.tokens < 1:
            raise _refused(noun, rate, stock.empty_until - time.monotonic())
        stock.tokens -= 1
        return stock.tokens

    async def _fill(self, stock: _Tokens, limit: Limit) -> None:
        if stock.tokens >= 1 or time.monotonic() < stock.empty_until:
            return
        wanted = max(1, math.ceil((limit.rate_per_second or 0.0) * CHUNK_SECONDS))
        if self._database.primary_away or not self._database.writable:
            # Reads work without a commit; each node then limits separately.
            stock.tokens, stock.empty_until = wanted, time.monotonic() + CHUNK_SECONDS
            return
        async with self._database.write() as connection:
            grant = await permit.acquire(connection, limit, self._node_id, 0, wanted, 0.0)
        stock.tokens = grant.starts
        if not grant.starts:
            stock.empty_until = time.monotonic() + grant.wait_seconds

    def _tokens_of(self, scope: str) -> _Tokens:
        found = self._stocks.get(scope)
        if found is None:
            if len(self._stocks) >= MAX_REMEMBERED:
                self._stocks.clear()
            found = self._stocks[scope] = _Tokens()
        return found


@lru_cache(maxsize=1024)
def _policy(by_key: float, by_tenant: float) -> str:
    named = (("key", by_key), ("tenant", by_tenant))
    return ", ".join(f'"{name}";q={rate:g};w=1' for name, rate in named if rate)


def _refused(noun: str, rate: float, wait_seconds: float) -> RefusedError:
    detail = f"The {noun} is limited to {rate:g} requests a second."
    wait = round(max(wait_seconds, 0.001), 3)
    return refuse(Code.RATE_LIMITED, detail, retry_after_seconds=wait, limited_by=noun)
