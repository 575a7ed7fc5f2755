"""Repeat something on weekdays at nine in Berlin, and see what comes before it is created.

Needs a running server, POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import os

from postdate.client import Client

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")


def main() -> None:
    """Create a schedule, preview it, run it once by hand, and pause it."""
    with Client(URL, KEY) as client:
        made = client.call(
            "POST",
            "/schedules",
            {
                "cron": "0 9 * * 1-5",
                "timezone": "Europe/Berlin",
                "start_at": "2031-03-28T00:00:00Z",
                "template": {"job": {"destination": {"type": "worker"}, "lane": "stand-up"}},
            },
        )
        path = f"/schedules/{made['schedule_id']}"
        preview = client.call("GET", f"{path}/preview", query={"count": 2})
        for one in preview["occurrences"]:
            print("comes:", one["scheduled_for"])
        made = client.call("POST", f"{path}/trigger")
        print("one at once:", made["job_id"] is not None)
        print("paused:", client.call("POST", f"{path}/pause", {"note": "holidays"})["status"])


if __name__ == "__main__":
    main()
