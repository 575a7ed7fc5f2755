"""Let an attempt fail, and see the next one succeed; the receiver decides how soon.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

import asyncio

from postdate.client import AsyncClient, Lease, RetryLaterError, Worker

LANE = "flaky"

worker = Worker()


@worker.handler(LANE)
async def call_the_bank(lease: Lease) -> str:
    """Fail at first."""
    if lease.attempt == 1:
        raise RetryLaterError("the bank is closed", seconds=0.1)
    worker.stop()
    return "paid"


async def main() -> None:
    """Register a job with a quick policy, work, and look at what was tried."""
    async with AsyncClient() as client:
        job = await client.jobs.create(
            destination={"type": "worker"},
            lane=LANE,
            payload={},
            retry={"initial_seconds": 0.1, "jitter": 0},
        )
        await worker.run()
        async for attempt in client.jobs.list_attempts(job.job_id):
            print(attempt.status, attempt.error or "")
        print("job:", (await client.jobs.get(job.job_id)).status)


if __name__ == "__main__":
    asyncio.run(main())
