"""The data of events on the page of event types is that of real events."""

import json
import re
from pathlib import Path
from typing import Any

from conftest import Api, Clock
from support.api_ledger import open_ledger
from support.bank import drain, settler
from support.event import seal_all

PAGE = Path(__file__).parents[2] / "docs/reference/events.md"
DATA = {
    kind: json.loads(data)
    for kind, data in re.findall(
        r"^\| `([a-z.]+)` \| `(\{.*\})` \|$", PAGE.read_text(), re.MULTILINE
    )
}


async def told(api: Api, subject: str) -> dict[str, Any]:
    events = (await api.call("GET", f"/events?subject={subject}")).body["events"]
    return {event["type"]: event["data"] for event in events}


async def test_a_payment_and_a_job_tell_what_the_page_shows(api: Api, clock: Clock) -> None:
    payment = (await (await open_ledger(api)).order()).body["payment_id"]
    await clock.advance(61)
    await drain(settler(api.node.database))
    body = {"destination": {"type": "worker"}, "payload": 1, "delay_seconds": 0, "lane": "told"}
    job = (await api.call("POST", "/jobs", body)).body["job_id"]
    claimed = await api.call("POST", "/lanes/told/claim", {"max": 1, "wait_seconds": 10})
    [lease] = claimed.body["leases"]
    done = await api.call("POST", f"/leases/{job}/complete", {"token": lease["token"]})
    assert done.status == 200, done
    await seal_all(api.node.database)
    real = await told(api, payment) | await told(api, job)
    assert {kind: set(data) for kind, data in real.items()} == {
        kind: set(data) for kind, data in DATA.items()
    }
