"""Register a hundred jobs in one commit; one that is wrong spoils none of the others.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

from datetime import UTC, datetime, timedelta

from postdate.client import Client
from postdate.client.models import BatchJobParams


def main() -> None:
    """Send a batch with one job that lies too far in the past."""
    jobs: list[BatchJobParams] = [
        {
            "destination": {"type": "worker"},
            "lane": "bulk",
            "delay_seconds": timedelta(minutes=1),
        }
        for _ in range(99)
    ]
    jobs.append({
        "destination": {"type": "worker"},
        "lane": "bulk",
        "run_at": datetime(2001, 1, 1, tzinfo=UTC),
    })  # fmt: skip
    with Client() as client:
        answer = client.jobs.create_many(jobs=jobs)
    print("accepted:", answer.accepted)
    print("refused:", [str(one.problem.code) for one in answer.outcomes if one.problem])


if __name__ == "__main__":
    main()
