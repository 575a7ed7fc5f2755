"""Ask for fifty jobs at one instant, and have them spread over ten minutes.

Needs a running server, POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import os

from postdate.client import Client

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")


def main() -> None:
    """Register them, and count the different instants they really have."""
    job = {
        "destination": {"type": "worker"},
        "lane": "midnight",
        "run_at": "2031-01-01T00:00:00Z",
        "spread_seconds": 600,
    }
    with Client(URL, KEY) as client:
        client.call("POST", "/jobs/batch", {"jobs": [job] * 50})
        listed = client.call("GET", "/jobs", query={"lane": "midnight", "limit": 100})["jobs"]
    print("asked for:", {one["due_at"] for one in listed})
    instants = {one["effective_at"] for one in listed}
    print("jobs:", len(listed), "and nearly as many instants:", len(instants) > 0.8 * len(listed))


if __name__ == "__main__":
    main()
