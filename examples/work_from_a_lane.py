"""Hand work to a worker of your own: it asks for jobs, does them, and says what came of it.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

import asyncio

from postdate.client import AsyncClient, Lease, Worker

LANE = "thumbnails"
COUNT = 3

worker = Worker(concurrency=2)
done: list[str] = []


@worker.handler(LANE, kind="thumbnail")
def make_thumbnail(lease: Lease) -> dict[str, str]:
    """Do the work; pass the token on, so that a store can refuse a worker that was too slow."""
    name = lease.payload["picture"]
    print(f"{name}, attempt {lease.attempt}, token {lease.token}")
    done.append(name)
    if len(done) == COUNT:
        worker.stop()
    return {"thumbnail": f"{name}.small"}


async def main() -> None:
    """Register three jobs, and work until they are done."""
    async with AsyncClient() as client:
        for number in range(COUNT):
            await client.jobs.create(
                destination={"type": "worker"},
                lane=LANE,
                payload={"picture": f"cat-{number}"},
                metadata={"kind": "thumbnail"},
            )
    await worker.run()
    print("done:", sorted(done))


if __name__ == "__main__":
    asyncio.run(main())
