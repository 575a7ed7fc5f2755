"""Hold an amount now, see it paid a second later, and read the statement.

Needs a running server (POSTDATE_URL, http://127.0.0.1:8080 by default). POSTDATE_API_KEY is
a key with the scopes payments:read, payments:write and ledger:adjust.
"""

import secrets

from postdate.client import Client
from postdate.client.models import ScheduledPayment


def main() -> None:
    """Create two accounts, put money on one, schedule a payment, and watch it."""
    with Client() as client:
        payer = client.accounts.create(note="payer").account_id
        payee = client.accounts.create(note="payee").account_id
        client.accounts.adjust(payer, amount=10_000, reason="opening")

        key = f"rent-{secrets.token_hex(4)}"

        def schedule() -> ScheduledPayment:
            return client.payments.schedule(
                from_account_id=payer,
                to_account_id=payee,
                amount=2500,
                delay_seconds=1,
                idempotency_key=key,
            )

        payment, again = schedule(), schedule()
        print("asked twice, one payment:", again.payment_id == payment.payment_id)
        account = client.accounts.get(payer)
        print(f"scheduled: {account.held} held, {account.available} available")

        paid = client.payments.wait(payment.payment_id, timeout=20)
        print(f"{paid.status}, {paid.lateness_ms} ms after it was due")

        for entry in client.accounts.list_entries(payer):
            print(f"{entry.version:>3} {entry.type:<10} {entry.amount:>7} {entry.balance:>7}")


if __name__ == "__main__":
    main()
