"""`ensure` creates what is missing, changes nothing, and names what differs."""

import asyncio

from conftest import Api
from postdate.client import AsyncClient


async def test_an_account_is_made_once_and_then_compared(api: Api) -> None:
    async with AsyncClient(api.url, api.key) as client:
        made = await asyncio.gather(
            *(client.accounts.ensure("ada", currency="EUR") for _ in range(8))
        )
        assert [each.created for each in made].count(True) == 1
        assert {str(each.differs) for each in made} == {"{}"}
        other = await client.accounts.ensure("ada", currency="USD")
        assert (other.created, other.differs) == (False, {"currency": ("USD", "EUR")})
        assert (await client.accounts.get("ada")).currency == "EUR"


async def test_a_destination_is_compared_by_what_is_shown(api: Api) -> None:
    async with AsyncClient(api.url, api.key) as client:
        first = await client.destinations.ensure("shop", url="https://shop.example/hook")
        again = await client.destinations.ensure(
            "shop", url="https://shop.example/hook", max_running=5
        )
        assert (first.created, again.created) == (True, False)
        assert again.differs == {"max_running": (5, None)}


async def test_a_schedule_is_found_by_its_name(api: Api) -> None:
    job = {"job": {"destination": {"type": "worker"}, "lane": "mail", "payload": {"n": 1}}}
    async with AsyncClient(api.url, api.key) as client:
        first = await client.schedules.ensure("rent", cron="0 8 1 * *", template=job)
        again = await client.schedules.ensure("rent", cron="0 8 1 * *", template=job)
        assert (first.created, again.created, again.differs) == (True, False, {})
        moved = await client.schedules.ensure("rent", cron="0 9 1 * *", template=job)
        assert moved.differs == {"cron": ("0 9 1 * *", "0 8 1 * *")}
        await client.schedules.change(first.item.schedule_id, name="the rent")
        assert (await client.schedules.list_page(name="rent")).schedules == []
        listed = [each async for each in client.schedules.list(name="the rent")]
        assert [each.schedule_id for each in listed] == [first.item.schedule_id]


async def test_a_lane_is_made_once_and_then_compared(api: Api) -> None:
    async with AsyncClient(api.url, api.key) as client:
        made = await asyncio.gather(*(client.lanes.ensure("mail", weight=3) for _ in range(8)))
        assert [each.created for each in made].count(True) == 1
        assert {str(each.differs) for each in made} == {"{}"}
        other = await client.lanes.ensure("mail", weight=4)
        assert (other.created, other.differs) == (False, {"weight": (4, 3)})
