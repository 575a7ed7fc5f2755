"""Repeat something on weekdays at nine in Berlin, and see what comes before it is created.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

from datetime import UTC, datetime

from postdate.client import Client


def main() -> None:
    """Create a schedule, preview it, run it once by hand, and pause it."""
    with Client() as client:
        made = client.schedules.create(
            cron="0 9 * * 1-5",
            timezone="Europe/Berlin",
            start_at=datetime(2031, 3, 28, tzinfo=UTC),
            template={"job": {"destination": {"type": "worker"}, "lane": "stand-up"}},
        )
        for one in client.schedules.preview(made.schedule_id, count=2).occurrences:
            print("comes:", one.scheduled_for)
        triggered = client.schedules.trigger(made.schedule_id)
        print("one at once:", triggered.job_id is not None)
        print("paused:", client.schedules.pause(made.schedule_id, note="holidays").status)


if __name__ == "__main__":
    main()
