"""Read the events of a payment in their order, waiting for the next ones.

Needs a running server: POSTDATE_URL names it, POSTDATE_API_KEY is an admin key.
"""

from postdate.client import Client


def main() -> None:
    """Schedule a payment and follow it to its end."""
    with Client() as client:
        payer, payee = client.accounts.create().account_id, client.accounts.create().account_id
        client.accounts.adjust(payer, amount=500, reason="opening")
        payment = client.payments.schedule(
            from_account_id=payer, to_account_id=payee, amount=200, delay_seconds=1
        )
        for event in client.events.stream(subject=payment.payment_id):
            print(event.type)
            if event.type == "payment.completed":
                break


if __name__ == "__main__":
    main()
