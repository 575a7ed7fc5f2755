"""A calendar with many followers: all of them follow its change, in short transactions."""

import pytest

from conftest import Api
from postdate.calendar import change as calendar
from postdate.node import schedule as schedules
from postdate.scheduler.expander import Expander
from support.schedule import create, drain

pytestmark = pytest.mark.own_database("foresight reads the due work of every tenant")

BEFORE, AFTER = "2031-05-02T09:00:00Z", "2031-05-05T09:00:00Z"


async def test_followers_beyond_the_first_are_moved_by_the_expander(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calendar, "COMPUTED_AT_ONCE", 1)
    body = {"name": "many", "holidays": ["2031-05-01"]}
    await api.call("POST", "/calendars", body)
    rules = {"cron": "0 9 1 5 *", "start_at": "2031-04-30T00:00:00Z", "calendar": "many"}
    made = [await create(api, **rules, roll="following") for _ in range(3)]
    assert [each["next_due_at"] for each in made] == [BEFORE] * 3
    holidays = ["2031-05-01", "2031-05-02"]
    assert (await api.call("POST", "/calendars", body | {"holidays": holidays})).status == 201

    async def due() -> list[str]:
        paths = [f"/schedules/{each['schedule_id']}" for each in made]
        return [(await api.call("GET", path)).body["next_due_at"] for path in paths]

    assert (await due()).count(AFTER) == 1
    await drain(Expander(api.node.database, schedules.occurrences(api.node)))
    assert await due() == [AFTER] * 3
    for each in made:
        path = f"/schedules/{each['schedule_id']}/occurrences"
        assert (await api.call("GET", path)).body["occurrences"] == []
