"""One tenant's client: asks two servers by turns, and asks again until it knows the answer."""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import aiohttp
import msgspec

from postdate_lab.chaos.history import LineType, Recorder
from postdate_lab.chaos.life import foreign_canaries

AGAIN: Final = frozenset({429, 500, 502, 503, 504})
MAX_OPEN: Final = "idempotency_in_flight"
KNOWN_SECONDS: Final = 60.0
"""For how long a client asks again before it gives up."""

PAUSE_SECONDS: Final = 0.25
CALL_SECONDS: Final = 10.0
CLIENT_ERROR: Final = 400


class ChaosAnswer(msgspec.Struct, frozen=True):
    """What a server has answered."""

    status: int
    body: Any
    foreign: tuple[str, ...] = ()
    """Canaries of other tenants that stand anywhere in the answer."""

    @property
    def is_ok(self) -> bool:
        """Return whether it was done."""
        return self.status < CLIENT_ERROR

    @property
    def code(self) -> str:
        """Return the code of a refusal."""
        return str(self.body.get("code", "")) if isinstance(self.body, dict) else ""

    @property
    def is_final(self) -> bool:
        """Return whether asking again would tell nothing new, for any item of a batch."""
        items = self.body.get("outcomes", ()) if isinstance(self.body, dict) else ()
        return _is_final(self.status, self.code) and all(
            _is_final(item["status"], item.get("problem", {}).get("code", "")) for item in items
        )


def _is_final(status: int, code: str) -> bool:
    return status not in AGAIN and code != MAX_OPEN


class RecordingClient:
    """Calls the API on behalf of one tenant, and records every call and every answer."""

    def __init__(
        self, session: aiohttp.ClientSession, urls: Sequence[str], record: Recorder, tenant: str
    ) -> None:
        self._session = session
        self._urls = itertools.cycle(urls)
        self._record = record
        self.tenant = tenant
        self.key = ""

    async def ask(
        self, method: str, path: str, body: Any = None, *, key: str = "", as_key: str = "",
        call_seconds: float = CALL_SECONDS,
    ) -> ChaosAnswer | None:  # fmt: skip
        """Ask once; None when nobody knows whether it was done."""
        headers = {"Authorization": f"Bearer {as_key or self.key}"}
        if key:
            headers["Idempotency-Key"] = key
        url = f"{next(self._urls)}/api/v1{path}"
        try:
            async with self._session.request(
                method,
                url,
                json=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=call_seconds),
            ) as response:
                data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
        try:
            decoded = msgspec.json.decode(data) if data else None
        except msgspec.DecodeError:
            return None
        return ChaosAnswer(response.status, decoded, foreign_canaries(data, self.tenant))

    async def do(  # noqa: PLR0913 - what is asked, as whom, and what to note about it
        self, op: str, n: int, method: str, path: str, body: Any = None, *, key: str = "",
        as_key: str = "", seconds: float = KNOWN_SECONDS, call_seconds: float = CALL_SECONDS,
        keep: Callable[[Any], Any] = lambda body: body, **about: Any,
    ) -> ChaosAnswer | None:  # fmt: skip
        """Ask until the answer is known, and record what was asked and what is kept of it."""
        by = f"client-{self.tenant}"
        self._record(by, "invoke", op, n, self.tenant, key=key, path=path, **about)
        loop = asyncio.get_running_loop()
        until, asked = loop.time() + seconds, 0
        while True:
            answer = await self.ask(
                method, path, body, key=key, as_key=as_key, call_seconds=call_seconds
            )
            asked += 1
            if answer is not None and answer.is_final:
                break
            status = answer.status if answer else 0
            self._record(by, "info", op, n, self.tenant, status=status, asked=asked)
            if loop.time() > until:
                return None
            await asyncio.sleep(PAUSE_SECONDS)
        kind: LineType = "ok" if answer.is_ok else "fail"
        kept = keep(answer.body) if answer.is_ok else answer.body
        if answer.foreign:
            about["foreign"] = answer.foreign
        self._record(
            by, kind, op, n, self.tenant, status=answer.status, asked=asked, answer=kept, **about
        )
        return answer
