from dataclasses import replace

import pytest

from conftest import Api
from postdate.node.node import Node

pytestmark = pytest.mark.own_database("it changes settings of the operator")


async def value(api: Api, name: str) -> object:
    answer = await api.call("GET", "/settings")
    return {one["name"]: one["value"] for one in answer.body["settings"]}[name]


async def test_a_tenant_s_setting_is_seen_by_other_nodes_and_by_no_other_tenant(api: Api) -> None:
    answer = await api.call("PUT", "/settings/payment.max_amount", {"value": 77})
    assert answer.status == 200
    assert await value(api, "payment.max_amount") == 77
    other = Node(settings=api.node.settings, database=api.node.database, roles=["worker"])
    await other.refresh_settings()
    who = (await api.call("GET", "/whoami")).body["tenant"]
    tenant_id = await api.node.database.writer.fetchval(
        "SELECT tenant_id FROM tenant WHERE name = $1", who
    )
    assert other.runtime.integer("payment.max_amount", tenant_id) == 77
    assert other.runtime.integer("payment.max_amount", tenant_id + 1) == 1_000_000
    assert (await api.call("DELETE", "/settings/payment.max_amount")).status == 204
    assert await value(api, "payment.max_amount") == 1_000_000


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/settings/payment.max_amount", {"value": 0}, 422, "invalid_field"),
        ("/settings/payment.max_amount", {"value": "x"}, 422, "invalid_field"),
        ("/settings/payment.max_amount", {"value": 5, "percent": 5}, 422, "unknown_field"),
        ("/settings/feature.x", {"value": True}, 422, "unknown_setting"),
        ("/settings/nothing", {"value": 5}, 422, "unknown_setting"),
        ("/settings/payment.max_amount", {"valu": 5}, 422, "unknown_field"),
    ],
)
async def test_a_wrong_setting_is_refused(
    api: Api, path: str, body: dict[str, object], status: int, code: str
) -> None:
    answer = await api.call("PUT", path, body)
    assert (answer.status, answer.body["code"]) == (status, code)


async def test_only_an_admin_changes_settings(api: Api) -> None:
    weak = replace(api, key=await api.new_key("jobs:write"))
    answer = await weak.call("PUT", "/settings/payment.max_amount", {"value": 5})
    assert (answer.status, answer.body["code"]) == (403, "forbidden")
