"""Read the events of a payment in their order, waiting for the next ones.

Needs a running server, POSTDATE_URL, and an admin key in POSTDATE_KEY.
"""

import os
import time

from postdate.client import Client

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("POSTDATE_KEY", "")


def main() -> None:
    """Schedule a payment and follow it to its end."""
    with Client(URL, KEY) as client:
        payer = client.call("POST", "/accounts", {})["account_id"]
        payee = client.call("POST", "/accounts", {})["account_id"]
        path = f"/accounts/{payer}/adjustments"
        credit = {"amount": 500, "reason": "opening"}
        client.call("POST", path, credit, idempotency_key=f"open-{time.time_ns()}")
        payment = client.schedule_payment(payer, payee, 200, delay_seconds=1)
        query = {"subject": payment["payment_id"], "wait_seconds": 20}
        after, seen = None, ""
        while seen != "payment.completed":
            page = client.call("GET", "/events", query={**query, "after": after})
            for event in page["events"]:
                seen = event["type"]
                print(seen)
            after = page["next_cursor"]


if __name__ == "__main__":
    main()
