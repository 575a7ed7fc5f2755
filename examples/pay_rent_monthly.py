"""Pay the rent on the first of each month, on the next working day when that is a holiday.

Needs a running server, POSTDATE_URL (http://127.0.0.1:8080 by default), and in POSTDATE_KEY a key
with the scopes schedules:read, schedules:write, payments:read, payments:write and ledger:adjust.
"""

import json
import os
import time
import urllib.request
from typing import Any

URL = os.environ.get("POSTDATE_URL", "http://127.0.0.1:8080") + "/api/v1"
KEY = os.environ.get("POSTDATE_KEY", "")


def call(method: str, path: str, body: Any = None, key: str = "") -> Any:
    """Call the API."""
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    if key:
        headers["Idempotency-Key"] = key
    data = None if body is None else json.dumps(body).encode()
    # The address is the operator's own.
    request = urllib.request.Request(URL + path, data, headers, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        return json.load(answer)


def main() -> None:
    """Order the rent, look at the dates to come, and pay once at once."""
    run = str(time.time_ns())
    tenant = call("POST", "/accounts", {"note": "tenant"})["account_id"]
    landlord = call("POST", "/accounts", {"note": "landlord"})["account_id"]
    wages = {"amount": 500_000, "reason": "wages"}
    call("POST", f"/accounts/{tenant}/adjustments", wages, key=f"wages-{run}")

    call("POST", "/calendars", {"name": "berlin", "holidays": ["2031-01-01", "2031-05-01"]})
    order = {
        "name": "rent",
        "cron": "0 9 1 * *",
        "timezone": "Europe/Berlin",
        "start_at": "2030-12-15T00:00:00Z",
        "calendar": "berlin",
        "roll": "following",
        "template": {
            "payment": {
                "from_account_id": tenant,
                "to_account_id": landlord,
                "amount": 95_000,
                "description": "rent",
            }
        },
        "insufficient_funds": {"policy": "retry", "retry_seconds": 3 * 86_400},
    }
    schedule_id = call("POST", "/schedules", order, key=f"rent-{run}")["schedule_id"]
    for coming in call("GET", f"/schedules/{schedule_id}/preview?count=5")["occurrences"]:
        print(f"{coming['local']}  {', '.join(coming['notes'])}")

    paid = call("POST", f"/schedules/{schedule_id}/trigger")
    payment = call("GET", f"/payments/{paid['payment_id']}")
    deadline = time.monotonic() + 20
    while payment["status"] == "PENDING" and time.monotonic() < deadline:
        time.sleep(0.1)
        payment = call("GET", f"/payments/{paid['payment_id']}")
    print(f"one at once: {payment['status']}")
    for row in call("GET", f"/schedules/{schedule_id}/occurrences")["occurrences"]:
        print(f"in the book: {row['status']} by {row['cause']}")


if __name__ == "__main__":
    main()
