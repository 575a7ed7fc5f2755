from typing import Any

import pytest

from conftest import Api


def body(**changes: Any) -> dict[str, Any]:
    config = {"servers": ["nats://127.0.0.1:2"]}
    return {"name": "q", "type": "queue", "kind": "nats", "config": config, **changes}


async def test_a_broker_that_cannot_be_reached_is_refused_unless_forced(api: Api) -> None:
    answer = await api.call("POST", "/destinations", body())
    assert (answer.status, answer.body["code"]) == (422, "destination_unreachable")
    assert (await api.call("GET", "/destinations/q")).status == 404
    assert (await api.call("POST", "/destinations", body(force=True))).status == 201
    shown = (await api.call("GET", "/destinations/q")).body
    assert "127.0.0.1:2" not in repr(shown)
    trial = (await api.call("POST", "/destinations/q/test", {})).body
    assert (trial["outcome"], trial["code"]) == ("failed", "subject_missing")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"kind": "pigeon"}, "kind"),
        ({"kind": None}, "kind"),
        ({"config": {"servers": "x"}}, "config"),
        ({"config": {"servers": ["nats://x"], "colour": 1}}, "config"),
        ({"url": "https://example.com"}, "url"),
    ],
)
async def test_a_wrong_queue_is_refused_by_its_part(
    api: Api, changes: dict[str, Any], field: str
) -> None:
    answer = await api.call("POST", "/destinations", body(**changes))
    assert (answer.status, answer.body["field"]) == (422, field)
