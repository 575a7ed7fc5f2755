"""Pay the rent on the first of each month, on the next working day when that is a holiday.

Needs a running server (POSTDATE_URL, http://127.0.0.1:8080 by default). POSTDATE_API_KEY is
a key with the scopes schedules:read, schedules:write, payments:read, payments:write and
ledger:adjust.
"""

from datetime import UTC, date, datetime, timedelta

from postdate.client import Client


def main() -> None:
    """Order the rent, look at the dates to come, and pay once at once."""
    with Client() as client:
        tenant = client.accounts.create(note="tenant").account_id
        landlord = client.accounts.create(note="landlord").account_id
        client.accounts.adjust(tenant, amount=500_000, reason="wages")

        client.calendars.put(name="berlin", holidays=[date(2031, 1, 1), date(2031, 5, 1)])
        made = client.schedules.create(
            name="rent",
            cron="0 9 1 * *",
            timezone="Europe/Berlin",
            start_at=datetime(2030, 12, 15, tzinfo=UTC),
            calendar="berlin",
            roll="following",
            template={
                "payment": {
                    "from_account_id": tenant,
                    "to_account_id": landlord,
                    "amount": 95_000,
                    "description": "rent",
                }
            },
            insufficient_funds={"policy": "retry", "retry_seconds": timedelta(days=3)},
        )
        for coming in client.schedules.preview(made.schedule_id, count=5).occurrences:
            print(f"{coming.local}  {', '.join(coming.notes)}")

        paid = client.schedules.trigger(made.schedule_id)
        payment = client.payments.wait(paid.payment_id or "", timeout=20)
        print(f"one at once: {payment.status}")
        for row in client.schedules.list_occurrences(made.schedule_id):
            print(f"in the book: {row.status} by {row.cause}")


if __name__ == "__main__":
    main()
