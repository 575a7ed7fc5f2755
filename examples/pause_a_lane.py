"""Pause a lane while its receiver is repaired: work waits, and loses no attempt.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

from postdate.client import Client

LANE = "invoices"


def main() -> None:
    """Pause, see nothing handed out, resume, and get the job."""
    with Client() as client:
        client.jobs.create(destination={"type": "worker"}, lane=LANE, payload={"invoice": 7})
        client.lanes.pause(LANE, note="the printer is on fire")
        print("handed out while paused:", len(client.leases.claim(LANE).leases))
        client.lanes.resume(LANE)
        leases = client.leases.claim(LANE, max=10, wait_seconds=20).leases
        print("handed out after:", [lease.payload for lease in leases])
        for lease in leases:
            client.leases.complete(lease.job_id, token=lease.token)


if __name__ == "__main__":
    main()
