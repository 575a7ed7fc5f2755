"""Send what the crowd has drawn, as fast as the plan wants and the backlog allows."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from postdate_lab.chaos import crowd
from postdate_lab.chaos.actor import ChaosActor, batch_ids, need, resolve_doubts
from postdate_lab.chaos.client import RecordingClient
from postdate_lab.chaos.puller import Puller

SENDERS: Final = 10
"""Batches under way at once."""

MAX_OPEN: Final = 20_000
"""Beyond so many open payments and jobs nothing is sent: they must end in time after the run."""

LOOK_SECONDS: Final = 1.0
CALL_SECONDS: Final = 30.0
KNOWN_SECONDS: Final = 300.0
OPENING: Final = 300_000
PREPARED_AT_ONCE: Final = 32
LEASES_MAX: Final = 50

OpenCounts = Callable[[], Awaitable[Mapping[str, int]]]


class ChaosCrowd:
    """The crowd of a run: one tenant after the other sends its batches."""

    def __init__(
        self, seed: int, rate: float, clients: Sequence[RecordingClient], actor: ChaosActor,
        open_counts: OpenCounts,
    ) -> None:  # fmt: skip
        self._seed = seed
        self._rate = rate
        self._clients = clients
        self._actor = actor
        self._open_counts = open_counts
        self._open: Mapping[str, int] = {}
        self._looked = asyncio.Event()
        self._room = asyncio.Semaphore(SENDERS)
        self._sent = 0
        self._pulling: dict[str, asyncio.Task[None]] = {}
        self._leaving: dict[str, RecordingClient] = {}
        self._sending: Counter[str] = Counter()

    async def prepare(self) -> None:
        """Open the accounts of everybody, before anything is disturbed."""
        room = asyncio.Semaphore(PREPARED_AT_ONCE)
        await asyncio.gather(
            *(self._open_account(client, n, room)
              for client in self._clients for n in range(crowd.ACCOUNTS))
        )  # fmt: skip

    async def _open_account(
        self, client: RecordingClient, number: int, room: asyncio.Semaphore
    ) -> None:
        name = f"a{number}"
        async with room:
            await need(client, "POST", "/accounts", {"account_id": name}, f"account-{name}")
            credit = {"amount": OPENING, "reason": "opening"}
            path = f"/accounts/{name}/adjustments"
            await need(client, "POST", path, credit, f"opening-{name}")

    async def run(self, until: float) -> None:
        """Send until the time is over, by the loop's clock."""
        began = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as group:
            for client in self._clients:
                self._pull(client)
                await self._send_all(group, client, began, until)
                self._leaving[client.tenant] = client
                if asyncio.get_running_loop().time() >= until:
                    break

    def _pull(self, client: RecordingClient) -> None:
        puller = Puller(client, self._seed, LEASES_MAX)
        self._pulling[client.tenant] = asyncio.create_task(puller.run())

    async def _send_all(
        self, group: asyncio.TaskGroup, client: RecordingClient, began: float, until: float
    ) -> None:
        loop = asyncio.get_running_loop()
        for batch in crowd.batches(self._seed, client.tenant):
            due = began + self._sent / (2 * self._rate)
            await asyncio.sleep(max(0.0, min(due, until) - loop.time()))
            while sum(self._open.values()) > MAX_OPEN and loop.time() < until:
                await self._looked.wait()
            await self._room.acquire()
            if loop.time() >= until:
                self._room.release()
                return
            self._sent += len(batch.items)
            self._sending[client.tenant] += 1
            sending = group.create_task(self._send(client, batch))
            sending.add_done_callback(lambda _: self._sent_one(client.tenant))

    def _sent_one(self, tenant: str) -> None:
        self._sending[tenant] -= 1
        self._room.release()

    async def _send(self, client: RecordingClient, batch: crowd.Batch) -> None:
        """Send one batch until its answer is known; some are sent once more."""
        items = batch.items
        if batch.noun == "job":
            items = [self._actor.destined(client.tenant, item) for item in items]
        held = [n for n, item in enumerate(items) if "on_unknown" in item.get("retry", ())]
        for _ in range(1 + batch.is_repeated):
            await client.do(
                f"{batch.noun}.batch", batch.n, "POST", f"/{batch.noun}s/batch",
                {f"{batch.noun}s": items}, seconds=KNOWN_SECONDS, call_seconds=CALL_SECONDS,
                keep=batch_ids, keys=crowd.keys(batch), held=held, wall=time.time(),
                delays=[item["delay_seconds"] for item in items],
            )  # fmt: skip

    async def watch(self) -> None:
        """Look at the backlog until cancelled, and see off who has nothing left."""
        while True:
            with suppress(Exception):  # the database may be away
                # What is still being sent is not among the open yet.
                silent = [each for each in self._leaving if not self._sending[each]]
                self._open = await self._open_counts()
                for tenant in silent:
                    await self._see_off(tenant, self._leaving[tenant])
            self._looked.set()
            self._looked = asyncio.Event()
            await asyncio.sleep(LOOK_SECONDS)

    async def _see_off(self, tenant: str, client: RecordingClient) -> None:
        if self._open.get(tenant):
            await resolve_doubts(client)
        elif tenant in self._pulling:
            self._pulling.pop(tenant).cancel()
            del self._leaving[tenant]

    async def stop(self) -> None:
        """End everybody who still asks for work."""
        for task in self._pulling.values():
            task.cancel()
        await asyncio.gather(*self._pulling.values(), return_exceptions=True)
