"""Find what failed for good, and try it again once the cause is gone.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

from postdate.client import Client, Lease

LANE = "letters"


def take(client: Client) -> Lease:
    """Claim the one job of the lane."""
    return client.leases.claim(LANE, wait_seconds=20).leases[0]


def main() -> None:
    """Fail a job for good, redrive it, and complete what came of it."""
    with Client() as client:
        made = client.jobs.create(
            destination={"type": "worker"}, lane=LANE, payload={"to": "nobody"}
        )
        lease = take(client)
        client.leases.fail(lease.job_id, token=lease.token, error="no such street", retryable=False)
        dead = client.dead_letters.get(made.job_id).job
        print("dead letter:", dead.status)
        redriven = client.dead_letters.redrive(job_ids=[dead.job_id], per_second=10)
        print("redriven:", redriven.redriven)
        again = take(client)
        client.leases.complete(again.job_id, token=again.token)
        job = client.jobs.get(again.job_id)
        print("now:", job.status)
        print("in place of the failed one:", job.origin_id == dead.job_id)


if __name__ == "__main__":
    main()
