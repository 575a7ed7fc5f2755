"""Clients that send payments and jobs without a pause, and ask again until each has an answer."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from support.pause import wait_out

ACCOUNTS: Final = 8
FUNDS: Final = 1_000_000
BATCH: Final = 20
PAUSE_SECONDS: Final = 0.1
CALL_SECONDS: Final = 40.0
"""Longer than a node waits for its database: it answers, if only that it does not know."""


@dataclass
class Acknowledged:
    """What became of one key."""

    kind: str
    subject: str
    sent_at: float
    doubted: bool
    replayed: bool
    at: float = field(default_factory=time.monotonic)


@dataclass
class SteadyLoad:
    """Payments one by one and in batches, and jobs in batches, by turns to every node."""

    urls: Sequence[str]
    key: str
    target: str
    acknowledged: dict[str, Acknowledged] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    reads: list[tuple[float, str, int]] = field(default_factory=list)
    unanswered: int = 0
    stopping: bool = False

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)
        self._turns = itertools.count()
        timeout = aiohttp.ClientTimeout(total=CALL_SECONDS)
        headers = {"Authorization": f"Bearer {self.key}"}
        self._session = aiohttp.ClientSession(timeout=timeout, headers=headers)

    async def open_accounts(self) -> None:
        """Make payers with money, and payees without."""
        for number in range(ACCOUNTS):
            for side in ("payer", "payee"):
                body = {"account_id": f"{side}-{number}"}
                assert await self._status("POST", "/accounts", body) == 201
            path = f"/accounts/payer-{number}/adjustments"
            funds: dict[str, Any] = {"amount": FUNDS, "reason": "funds"}
            assert await self._status("POST", path, funds, f"funds-{number}") == 201

    @asynccontextmanager
    async def running(self, singles: int = 12, batches: int = 3) -> AsyncIterator[None]:
        """Send until the block ends, and then until each key has an answer."""
        self.stopping = False
        tasks = [asyncio.create_task(self._pay_singly()) for _ in range(singles)]
        tasks += [asyncio.create_task(self._send_batches("payment")) for _ in range(batches)]
        tasks += [asyncio.create_task(self._send_batches("job")) for _ in range(batches)]
        tasks += [asyncio.create_task(self._read(url)) for url in self.urls]
        try:
            yield
        finally:
            self.stopping = True
            await asyncio.gather(*tasks)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    def of_kind(self, kind: str) -> list[Acknowledged]:
        """Return what was acknowledged of one kind."""
        return [each for each in self.acknowledged.values() if each.kind == kind]

    async def _pay_singly(self) -> None:
        while not self.stopping:
            number = next(self._numbers)
            key, doubted = f"one-{number}", False
            while True:
                sent_at = time.monotonic()
                found = await self._call(
                    "POST", "/payments/schedule", _order(number), {"Idempotency-Key": key}
                )
                if found is not None and found[0] == 201:
                    _, body, replayed = found
                    made = Acknowledged("payment", body["payment_id"], sent_at, doubted, replayed)
                    self._note(key, made)
                    break
                doubted |= self._judge(key, found)
                await wait_out(PAUSE_SECONDS)

    async def _send_batches(self, kind: str) -> None:
        while not self.stopping:
            first = next(self._numbers)
            wanted = {f"{kind}-{first}-{part}": first + part for part in range(BATCH)}
            doubted: set[str] = set()
            while wanted:
                made = {key: self._item(kind, key, number) for key, number in wanted.items()}
                body = {f"{kind}s": list(made.values())}
                sent_at = time.monotonic()
                found = await self._call("POST", f"/{kind}s/batch", body)
                if found is None or found[0] >= 500:
                    self._judge("", found)
                    doubted |= set(wanted)
                    await wait_out(PAUSE_SECONDS)
                    continue
                for key, each in zip(made, found[1]["outcomes"], strict=True):
                    if each["status"] == 201:
                        subject = each[kind][f"{kind}_id"]
                        replayed = each.get("replayed", False)
                        done = Acknowledged(kind, subject, sent_at, key in doubted, replayed)
                        self._note(key, done)
                        del wanted[key]
                    elif self._judge(key, (each["status"], each["problem"], False)):
                        doubted.add(key)

    async def _read(self, url: str) -> None:
        """Ask one node for what was acknowledged, ten times a second."""
        while not self.stopping:
            known = next(reversed(self.acknowledged.values()), None)
            await wait_out(PAUSE_SECONDS)
            if known is None:
                continue
            began = time.monotonic()
            try:
                path = f"{url}/api/v1/{known.kind}s/{known.subject}"
                timeout = aiohttp.ClientTimeout(total=5)
                async with self._session.get(path, timeout=timeout) as answer:
                    await answer.read()
                    self.reads.append((began, url, answer.status))
            except (aiohttp.ClientError, TimeoutError, OSError):
                self.reads.append((began, url, 0))

    def _item(self, kind: str, key: str, number: int) -> dict[str, Any]:
        if kind == "payment":
            return _order(number) | {"idempotency_key": key}
        destination = {"type": "webhook", "url": self.target}
        return {"destination": destination, "delay_seconds": 1, "idempotency_key": key}

    def _judge(self, key: str, found: tuple[int, Any, bool] | None) -> bool:
        """Say whether it is not known what became of it; a refusal is never expected here."""
        if found is None or found[0] >= 500 or found[1].get("code") == "idempotency_in_flight":
            self.unanswered += 1
            return True
        self.refused.append(f"{key}: {found[0]} {found[1]}")
        raise AssertionError(self.refused[-1])

    def _note(self, key: str, made: Acknowledged) -> None:
        assert key not in self.acknowledged
        self.acknowledged[key] = made

    async def _status(self, method: str, path: str, body: Any, key: str = "") -> int:
        found = await self._call(method, path, body, {"Idempotency-Key": key} if key else None)
        assert found is not None
        return found[0]

    async def _call(
        self, method: str, path: str, body: Any, headers: dict[str, str] | None = None
    ) -> tuple[int, Any, bool] | None:
        url = self.urls[next(self._turns) % len(self.urls)]
        try:
            async with self._session.request(
                method, f"{url}/api/v1{path}", json=body, headers=headers
            ) as answer:
                replayed = "Idempotency-Replayed" in answer.headers
                return answer.status, await answer.json(content_type=None), replayed
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None


def _order(number: int) -> dict[str, Any]:
    return {
        "from_account_id": f"payer-{number % ACCOUNTS}",
        "to_account_id": f"payee-{(number // ACCOUNTS) % ACCOUNTS}",
        "amount": 1,
        "delay_seconds": 1 + number % 3,
    }
