"""Change your mind: cancel a payment before it is due, and see its hold released.

Needs a running server, POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import os
import time

from postdate.client import Client

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")


def main() -> None:
    """Schedule, cancel, and try to cancel again."""
    with Client(URL, KEY) as client:
        payer = client.call("POST", "/accounts", {})["account_id"]
        payee = client.call("POST", "/accounts", {})["account_id"]
        path = f"/accounts/{payer}/adjustments"
        credit = {"amount": 500, "reason": "opening"}
        client.call("POST", path, credit, idempotency_key=f"open-{time.time_ns()}")
        payment = client.schedule_payment(payer, payee, 200, delay_seconds=3600)
        print("held:", client.call("GET", f"/accounts/{payer}")["held"])
        client.cancel_payment(payment["payment_id"])
        print("held after cancelling:", client.call("GET", f"/accounts/{payer}")["held"])
        again = client.cancel_payment(payment["payment_id"])
        print("a second time:", again["status"])


if __name__ == "__main__":
    main()
