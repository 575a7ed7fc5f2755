"""Hold an amount now, see it paid a second later, and read the statement.

Needs a running server, POSTDATE_URL (http://127.0.0.1:8080 by default), and in POSTDATE_KEY a key
with the scopes payments:read, payments:write and ledger:adjust.
"""

import json
import os
import time
import urllib.request
from typing import Any

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080") + "/api/v1"
KEY = os.environ.get("POSTDATE_KEY", "")


def call(method: str, path: str, body: Any = None, key: str = "") -> Any:
    """Call the API; every call that creates money or payments has a key of its own."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    data = None if body is None else json.dumps(body).encode()
    # The address is the operator's own.
    request = urllib.request.Request(URL + path, data, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return json.load(answer)


def main() -> None:
    """Create two accounts, put money on one, schedule a payment, and watch it."""
    run = str(time.time_ns())
    payer = call("POST", "/accounts", {"note": "payer"})["account_id"]
    payee = call("POST", "/accounts", {"note": "payee"})["account_id"]
    credit = {"amount": 10_000, "reason": "opening"}
    call("POST", f"/accounts/{payer}/adjustments", credit, key=f"credit-{run}")

    order = {"from_account_id": payer, "to_account_id": payee, "amount": 2500, "delay_seconds": 1}
    payment = call("POST", "/payments/schedule", order, key=f"rent-{run}")
    again = call("POST", "/payments/schedule", order, key=f"rent-{run}")
    print("asked twice, one payment:", again["payment_id"] == payment["payment_id"])
    account = call("GET", f"/accounts/{payer}")
    print(f"scheduled: {account['held']} held, {account['available']} available")

    deadline = time.monotonic() + 20
    while payment["status"] == "PENDING" and time.monotonic() < deadline:
        time.sleep(0.1)
        payment = call("GET", f"/payments/{payment['payment_id']}")
    print(f"{payment['status']}, {payment['lateness_ms']} ms after it was due")

    for entry in call("GET", f"/accounts/{payer}/entries")["entries"]:
        version, amount, balance = entry["version"], entry["amount"], entry["balance"]
        print(f"{version:>3} {entry['type']:<10} {amount:>7} {balance:>7}")


if __name__ == "__main__":
    main()
