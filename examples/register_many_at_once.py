"""Register a hundred jobs in one commit; one that is wrong spoils none of the others.

Needs a running server, POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import os

from postdate.client import Client

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")


def main() -> None:
    """Send a batch with one job that lies too far in the past."""
    to = {"type": "worker"}
    jobs = [{"destination": to, "lane": "bulk", "delay_seconds": 60} for _ in range(99)]
    jobs.append({"destination": to, "lane": "bulk", "run_at": "2001-01-01T00:00:00Z"})
    with Client(URL, KEY) as client:
        answer = client.call("POST", "/jobs/batch", {"jobs": jobs})
    refused = [one["problem"]["code"] for one in answer["outcomes"] if one.get("problem")]
    print("accepted:", len(answer["outcomes"]) - len(refused))
    print("refused:", refused)


if __name__ == "__main__":
    main()
