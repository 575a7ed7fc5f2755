"""Workers that ask for their jobs over HTTP: most report, some forget, some report too late."""

import asyncio
import random
from typing import Any, Final

from postdate_lab.chaos.client import RecordingClient

LANE: Final = "pulled"
LEASES_MAX: Final = 5
LEASE_SECONDS: Final = 2.0
LATE_SECONDS: Final = 1.5 * LEASE_SECONDS
HABITS: Final = ("complete", "fail", "forget", "renew", "late")
_WEIGHTS: Final = (70, 10, 8, 6, 6)


class Puller:
    """One worker of one tenant."""

    def __init__(self, client: RecordingClient, seed: int, leases_max: int = LEASES_MAX) -> None:
        self._client = client
        self._drawn = random.Random(f"puller {seed} {client.tenant}")
        self._leases_max = leases_max
        self._number = 0

    async def run(self) -> None:
        """Claim and report until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._number += 1
                body = {"max": self._leases_max, "lease_seconds": LEASE_SECONDS, "wait_seconds": 1}
                answer = await self._client.do(
                    "lease.claim", self._number, "POST", f"/lanes/{LANE}/claim", body, seconds=0
                )
                leases = answer.body["leases"] if answer and answer.is_ok else []
                for lease in leases:
                    [habit] = self._drawn.choices(HABITS, _WEIGHTS)
                    group.create_task(self._work(self._number, lease, habit))
                if answer is None or not answer.is_ok:
                    await asyncio.sleep(0.5)

    async def _work(self, n: int, lease: dict[str, Any], habit: str) -> None:
        if habit == "forget":
            return
        if habit == "renew":
            await self._report(n, lease, "renew", {"lease_seconds": LEASE_SECONDS})
        if habit == "late":
            await asyncio.sleep(LATE_SECONDS)
        if habit == "fail":
            await self._report(n, lease, "fail", {"error": "the worker could not"})
        else:
            await self._report(n, lease, "complete", {})

    async def _report(self, n: int, lease: dict[str, Any], verb: str, more: dict[str, Any]) -> None:
        """Report once: a report whose answer is lost stays unknown."""
        path = f"/leases/{lease['job_id']}/{verb}"
        body = {"token": lease["token"], **more}
        await self._client.do(
            f"lease.{verb}", n, "POST", path, body, seconds=0,
            subject=lease["job_id"], token=lease["token"], attempt=lease["attempt"],
        )  # fmt: skip
