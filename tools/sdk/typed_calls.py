"""Calls of the client that `make types` lets pass, and wrong ones that it refuses. None is run.

A wrong call that mypy no longer refuses leaves its `type: ignore` unused: an error of its own.
"""

from datetime import UTC, datetime, timedelta

from postdate.client import AsyncClient, Client, Lease, Worker

worker = Worker()


def right(client: Client) -> tuple[datetime, list[str]]:
    job = client.jobs.create(
        destination={"type": "webhook", "url": "https://example.com"},
        run_at=datetime(2031, 1, 1, tzinfo=UTC),
        retry={"backoff": "fixed", "initial_seconds": timedelta(minutes=1)},
    )
    client.lanes.change("mail", max_running=None)
    return job.due_at, [account.account_id for account in client.accounts.list()]


async def right_awaited(client: AsyncClient) -> str:
    async for each in client.jobs.list(status="PENDING"):
        return (await client.jobs.wait(each.job_id)).job_id
    return (await client.jobs.get("a")).job_id


@worker.handler("mail", kind="send")
def right_handler(lease: Lease) -> None:
    print(lease.payload)


def wrong(client: Client) -> None:
    client.jobs.creat(destination={"type": "worker"})  # type: ignore[attr-defined]
    client.jobs.create()  # type: ignore[call-arg]
    client.jobs.create(destination={"type": "worker"}, delay=5)  # type: ignore[call-arg]
    client.jobs.create(destination={"type": "pigeon"})  # type: ignore[misc, arg-type]
    client.jobs.create(destination={"type": "worker"}, run_at="tomorrow")  # type: ignore[arg-type]
    client.jobs.create(
        destination={"type": "worker"},
        retry={"tries": 3},  # type: ignore[arg-type]
    )
    client.jobs.list(status="DONE")  # type: ignore[arg-type]
    client.accounts.adjust("a", amount=25.5, reason="x")  # type: ignore[arg-type]
    client.payments.schedule("a", "b", 5)  # type: ignore[call-arg]
    print(client.jobs.get("a").statuss)  # type: ignore[attr-defined]
    client.lanes.change("mail", weight=None)  # type: ignore[arg-type]
    for page in client.accounts.get("a"):  # type: ignore[attr-defined]
        print(page)
    client.jobs.wait("a", seconds=1)  # type: ignore[call-arg]


def wrong_awaited(client: AsyncClient) -> None:
    print(client.jobs.get("a").status)  # type: ignore[attr-defined]
    for job in client.jobs.list():  # type: ignore[attr-defined]
        print(job)
    for event in client.events.stream():  # type: ignore[misc]
        print(event)
