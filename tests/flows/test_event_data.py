"""The data of events is as declared; conftest looks at each event that the server records."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Api, Clock
from postdate.event.spec.data import EVENT_FIELDS, EventField
from postdate.event.spec.types import EVENT_TYPES
from support import event_data
from support.api_ledger import open_ledger
from support.bank import drain, settler
from support.event import seal_all
from support.event_data import KINDS, WRONG, wrong

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
    assert [each for kind, data in real.items() for each in wrong(kind, data)] == []


def test_the_fields_of_all_types_are_explained_and_no_others() -> None:
    named = frozenset[str]().union(*(each.possible for each in EVENT_TYPES.values()))
    assert named == EVENT_FIELDS.keys()
    assert {kind for each in EVENT_FIELDS.values() for kind in each.kinds} <= KINDS.keys()


@pytest.mark.parametrize("kind", EVENT_TYPES)
def test_a_field_is_named_once(kind: str) -> None:
    names = [name.removesuffix("?") for name in EVENT_TYPES[kind].data.split()]
    assert len(names) == len({*names})


@pytest.mark.parametrize(
    ("data", "trouble"),
    [
        ({"lane": "mail"}, "no due_at"),
        ({"lane": "mail", "due_at": "2026-11-16T02:00:32Z", "kind": "x"}, "declares no kind"),
        ({"lane": 7, "due_at": "2026-11-16T02:00:32Z"}, "lane is 7"),
        ({"lane": "mail", "due_at": "tomorrow"}, "due_at is 'tomorrow'"),
    ],
)
def test_data_that_is_not_as_declared_is_found(data: dict[str, Any], trouble: str) -> None:
    [found] = wrong("job.accepted", data)
    assert trouble in found


async def test_what_the_server_records_is_looked_at(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"destination": {"type": "worker"}, "lane": "mail"}
    assert (await api.call("POST", "/jobs", job)).status == 201
    declared = {**EVENT_FIELDS, "lane": EventField(("whole number",), "A number.")}
    monkeypatch.setattr(event_data, "EVENT_FIELDS", declared)
    assert (await api.call("POST", "/lanes/mail/pause", {"note": "x"})).status == 200
    assert WRONG == ["lane.paused: lane is 'mail'"]
    WRONG.clear()
