"""Change your mind: cancel a payment before it is due, and see its hold released.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

from datetime import timedelta

from postdate.client import Client


def main() -> None:
    """Schedule, cancel, and try to cancel again."""
    with Client() as client:
        payer, payee = client.accounts.create().account_id, client.accounts.create().account_id
        client.accounts.adjust(payer, amount=500, reason="opening")
        payment = client.payments.schedule(
            from_account_id=payer,
            to_account_id=payee,
            amount=200,
            delay_seconds=timedelta(hours=1),
        )
        print("held:", client.accounts.get(payer).held)
        client.payments.cancel(payment.payment_id)
        print("held after cancelling:", client.accounts.get(payer).held)
        print("a second time:", client.payments.cancel(payment.payment_id).status)


if __name__ == "__main__":
    main()
