"""Pause a lane while its receiver is repaired: work waits, and loses no attempt.

Needs a running server, POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import os

from postdate.client import Client

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")
LANE = "invoices"


def main() -> None:
    """Pause, see nothing handed out, resume, and get the job."""
    with Client(URL, KEY) as client:
        client.accept_job({"type": "worker"}, lane=LANE, payload={"invoice": 7})
        client.call("POST", f"/lanes/{LANE}/pause", {"note": "the printer is on fire"})
        print("handed out while paused:", len(client.claim(LANE, wait_seconds=0)))
        client.call("POST", f"/lanes/{LANE}/resume")
        leases = client.claim(LANE, wait_seconds=20)
        print("handed out after:", [lease["payload"] for lease in leases])
        for lease in leases:
            body = {"token": lease["token"]}
            client.call("POST", f"/leases/{lease['job_id']}/complete", body)


if __name__ == "__main__":
    main()
