"""Ask for fifty jobs at one instant, and have them spread over ten minutes.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

from datetime import UTC, datetime, timedelta

from postdate.client import Client
from postdate.client.models import BatchJobParams


def main() -> None:
    """Register them, and count the different instants they really have."""
    job: BatchJobParams = {
        "destination": {"type": "worker"},
        "lane": "midnight",
        "run_at": datetime(2031, 1, 1, tzinfo=UTC),
        "spread_seconds": timedelta(minutes=10),
    }
    with Client() as client:
        client.jobs.create_many(jobs=[job] * 50)
        listed = list(client.jobs.list(lane="midnight"))
    print("asked for:", {str(one.due_at) for one in listed})
    instants = {one.effective_at for one in listed}
    print("jobs:", len(listed), "and nearly as many instants:", len(instants) > 0.8 * len(listed))


if __name__ == "__main__":
    main()
