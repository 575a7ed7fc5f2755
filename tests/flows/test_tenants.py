"""Tenants over HTTP, for the operator: create, list, disable, enable."""

from typing import Any
from uuid import uuid4

from conftest import INTERNAL_TOKEN, Answered, Api
from postdate.key.authentication import identity


async def operate(api: Api, method: str, path: str, body: Any = None) -> Answered:
    headers = {"X-Internal-Auth": INTERNAL_TOKEN, "Authorization": ""}
    return await api.call(method, f"/internal/tenants{path}", body, headers=headers)


async def test_a_tenant_is_made_with_its_first_key(api: Api) -> None:
    name = f"t-{uuid4().hex[:8]}"
    made = await operate(api, "POST", "", {"name": name})
    assert made.status == 201
    who = (await api.call("GET", "/whoami", key=made.body["key"])).body
    assert (who["tenant"], who["scopes"]) == (name, ["admin"])
    again = await operate(api, "POST", "", {"name": name})
    assert (again.status, again.body["code"]) == (409, "conflict")
    for wrong in ("", "Upper", "a/b", "line\n"):
        assert (await operate(api, "POST", "", {"name": wrong})).status == 422


async def test_tenants_are_listed_page_by_page(api: Api) -> None:
    names = {f"list-{uuid4().hex[:8]}" for _ in range(3)}
    for name in names:
        await operate(api, "POST", "", {"name": name})
    found, cursor = set(), ""
    while True:
        page = (await operate(api, "GET", f"?limit=2{cursor}")).body
        found |= {one["tenant"] for one in page["tenants"]}
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert names <= found


async def test_a_disabled_tenant_is_stopped_and_its_keys_are_refused(
    api: Api, monkeypatch: Any
) -> None:
    monkeypatch.setattr(identity, "REMEMBER_SECONDS", 0.0)
    key = await api.new_key("admin")
    assert (await operate(api, "POST", f"/{api.tenant}/disable", {"note": "unpaid"})).status == 204
    refused = await api.call("GET", "/whoami", key=key)
    assert (refused.status, refused.body["code"]) == (401, "unauthenticated")
    halts = await api.node.database.writer.fetch(
        "SELECT h.kind, h.note FROM tenant_halt h JOIN tenant t USING (tenant_id)"
        " WHERE t.name = $1 AND h.lifted_at IS NULL",
        api.tenant,
    )
    assert [tuple(row) for row in halts] == [("kill", "unpaid")]
    assert (await operate(api, "POST", f"/{api.tenant}/enable")).status == 204
    assert (await api.call("GET", "/whoami", key=key)).status == 200
    assert (await api.call("POST", "/accounts", {"account_id": "a"}, key=key)).status == 201
    missing = await operate(api, "POST", "/no-such/disable", {"note": "x"})
    assert (missing.status, missing.body["code"]) == (404, "not_found")
