"""Let an attempt fail, and see the next one succeed; the receiver decides how soon.

Needs a running server, POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import asyncio
import os

from postdate.client import AsyncClient, Lease, RetryLaterError, Worker

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")
LANE = "flaky"

worker = Worker(URL, KEY)


@worker.handle(LANE)
async def call_the_bank(lease: Lease) -> str:
    """Fail at first."""
    if lease.attempt == 1:
        raise RetryLaterError("the bank is closed", seconds=0.1)
    worker.stop()
    return "paid"


async def main() -> None:
    """Register a job with a quick policy, work, and look at what was tried."""
    retry = {"initial_seconds": 0.1, "jitter": 0}
    async with AsyncClient(URL, KEY) as client:
        job = await client.accept_job({"type": "worker"}, lane=LANE, payload={}, retry=retry)
        await worker.run()
        path = f"/jobs/{job['job_id']}"
        for attempt in (await client.call("GET", f"{path}/attempts"))["attempts"]:
            print(attempt["status"], attempt.get("error") or "")
        print("job:", (await client.call("GET", path))["status"])


if __name__ == "__main__":
    asyncio.run(main())
