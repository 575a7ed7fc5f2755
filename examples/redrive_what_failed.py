"""Find what failed for good, and try it again once the cause is gone.

Needs a running server, POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import os
from typing import Any

from postdate.client import Client

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")
LANE = "letters"


def take(client: Client) -> Any:
    """Claim the one job of the lane."""
    return client.claim(LANE, most=1, wait_seconds=20)[0]


def main() -> None:
    """Fail a job for good, redrive it, and complete what came of it."""
    with Client(URL, KEY) as client:
        client.accept_job({"type": "worker"}, lane=LANE, payload={"to": "nobody"})
        lease = take(client)
        refused = {"token": lease["token"], "error": "no such street", "retryable": False}
        client.call("POST", f"/leases/{lease['job_id']}/fail", refused)
        dead = client.call("GET", "/dead-letters", query={"lane": LANE})["jobs"][0]
        print("dead letter:", dead["status"])
        body = {"job_ids": [dead["job_id"]], "per_second": 10}
        print("redriven:", client.call("POST", "/dead-letters/redrive", body)["redriven"])
        again = take(client)
        client.call("POST", f"/leases/{again['job_id']}/complete", {"token": again["token"]})
        job = client.call("GET", f"/jobs/{again['job_id']}")
        print("now:", job["status"])
        print("in place of the failed one:", job["origin_id"] == dead["job_id"])


if __name__ == "__main__":
    main()
