"""Ask `/readyz` each second, and try a read and a write beside it: who says what is true."""

import asyncio
from typing import Any, Final

import aiohttp
import msgspec

from postdate_lab.chaos.history import RUN, Recorder
from postdate_lab.chaos.life import canary

WATCHED: Final = "dial"
"""The tenant that reads and writes only to see whether that works."""

EACH_SECONDS: Final = 1.0
ANSWER_SECONDS: Final = 2.0
"""What takes longer has not worked, for whoever waits."""

OP: Final = "readiness"
_SERVER_ERROR: Final = 500


class ReadinessWatcher:
    """Compares what one API process says of itself with what it does."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, key: str, hook: str, record: Recorder
    ) -> None:
        self._session = session
        self._url = url
        self._headers = {"Authorization": f"Bearer {key}"}
        self._hook = hook
        self._record = record
        self._number = 0

    async def run(self) -> None:
        """Ask and try until cancelled."""
        while True:
            self._number += 1
            asked = self._record.now()
            said, read, write = await asyncio.gather(self._said(), self._read(), self._write())
            self._record(
                RUN, "info", OP, self._number, url=self._url, asked=round(asked, 3),
                said=said, read=read, write=write,
            )  # fmt: skip
            await asyncio.sleep(max(0.0, asked + EACH_SECONDS - self._record.now()))

    async def _said(self) -> dict[str, bool] | None:
        """Return what `/readyz` says; None where nobody answers."""
        answer = await self._ask("GET", "/readyz")
        if answer is None:
            return None
        body = msgspec.json.decode(answer[1])
        return {name: body[name] for name in ("ready", "reads", "writes")}

    async def _read(self) -> bool:
        answer = await self._ask("GET", "/api/v1/jobs?limit=1")
        return answer is not None and answer[0] < _SERVER_ERROR

    async def _write(self) -> bool:
        payload = {"canary": canary(WATCHED), "n": self._number, "part": self._url}
        job = {"destination": {"type": "webhook", "url": self._hook}, "payload": payload}
        answer = await self._ask("POST", "/api/v1/jobs", job)
        return answer is not None and answer[0] < _SERVER_ERROR

    async def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes] | None:
        patience = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        try:
            async with self._session.request(
                method, f"{self._url}{path}", json=body, headers=self._headers, timeout=patience
            ) as response:
                return response.status, await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None
