"""A noun is declared in one file: its field is in everything that follows from the declaration."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from types import ModuleType
from typing import Any
from uuid import uuid4

import aiohttp
import asyncpg
import pytest

from conftest import INTERNAL_TOKEN, SECRET_KEY, Api, owner_dsn
from postdate.api.endpoints import ENDPOINTS
from postdate.cli import noun
from postdate.cli.operation_command import OperationCommand
from postdate.console.button import Button
from postdate.console.operation import ENDPOINT_BY_NAME
from postdate.core import operation_name
from postdate.core.setting.setting import Settings
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from postdate.event.spec.types import EVENT_TYPES
from postdate.http.endpoint import AnyEndpoint
from postdate.http.listener import bind
from postdate.http.login_throttle import LoginThrottle
from postdate.http.openapi import document
from postdate.http.server import HttpServer
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.tenant.change.tenant import Tenants
from sdk import render
from sdk.operations import operations
from sdk.shapes import Shapes
from support import beacon

pytestmark = pytest.mark.own_database("it creates a table of its own")

FIELD = "candela"
KINDS = ("created", "changed", "doused", "deleted")


@pytest.fixture(scope="module")
async def beacon_server(
    server: Embedded, database: Database, database_name: str
) -> AsyncIterator[Api]:
    """An edge that serves beacons besides everything else."""
    owner = await asyncpg.connect(owner_dsn(server, database_name))
    await owner.execute(beacon.TABLE)
    await owner.close()
    settings = ProcessSettings(internal_token=INTERNAL_TOKEN, secret_key=SECRET_KEY)
    node = Node(settings=settings, database=database, roles=["api"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge, "ENDPOINTS", with_beacons(database))
        known = {*EVENT_TYPES, *(f"beacon.{kind}" for kind in KINDS)}
        patch.setattr("postdate.event.store.event.EVENT_TYPES", known)
        running = HttpServer(
            edge.build(node, Identities(database, LoginThrottle(free=10**9))), bind("127.0.0.1", 0)
        )
        serving = asyncio.create_task(running.run())
        async with aiohttp.ClientSession() as session:
            yield Api(running.url, session, node)
        running.stop()
        await serving
    await node.close()


def with_beacons(database: Database | None = None) -> list[AnyEndpoint]:
    return [*ENDPOINTS, *beacon.routes(lambda _: database).endpoints]


@pytest.fixture
async def served(beacon_server: Api) -> Api:
    """The same for an admin of a fresh tenant."""
    tenants, name = Tenants(beacon_server.node.database), f"keeper-{uuid4().hex[:8]}"
    await tenants.create(name)
    key = (await tenants.issue(name, ["admin"])).key
    return replace(beacon_server, key=key, tenant=name)


async def events(api: Api) -> list[tuple[str, Any]]:
    rows = await api.node.database.writer.fetch(
        """SELECT e.type, e.data FROM event e JOIN tenant t USING (tenant_id)
            WHERE t.name = $1 AND e.type LIKE 'beacon.%' ORDER BY e.event_id""",
        api.tenant,
    )
    return [(row["type"], {k: v for k, v in row["data"].items() if k != "origin"}) for row in rows]


async def test_a_field_is_in_the_api_and_in_the_sealed_event(served: Api) -> None:
    body = {"name": "north", FIELD: 40, "code": "7-7"}
    first, again = [
        await served.call("POST", "/beacons", body, headers={"Idempotency-Key": "once"})
        for _ in range(2)
    ]
    shown = {"name": "north", FIELD: 40, "lit": True}
    assert (first.status, first.body) == (201, shown | {"code": "7-7"})
    assert (again.status, again.body) == (201, shown | {"code": None})
    assert (await served.call("GET", "/beacons")).body == {"beacons": [shown], "next_cursor": None}
    changed = await served.call("PATCH", "/beacons/north", {FIELD: 50})
    assert (changed.status, changed.body) == (200, shown | {FIELD: 50})
    for _ in range(2):
        doused = await served.call("POST", "/beacons/north/douse")
        assert (doused.status, doused.body) == (200, shown | {FIELD: 50, "lit": False})
    assert (await served.call("DELETE", "/beacons/north")).status == 204
    assert (await served.call("GET", "/beacons/north")).status == 404
    assert await events(served) == [
        ("beacon.created", {"name": "north", FIELD: 40}),
        ("beacon.changed", {"name": "north", FIELD: 50}),
        ("beacon.doused", {"name": "north"}),
        ("beacon.deleted", {"name": "north"}),
    ]


async def test_rights_limits_and_refusals_follow_from_the_declaration(served: Api) -> None:
    reader = await served.new_key("jobs:read")
    body = {"name": "north", FIELD: 40}
    assert (await served.call("POST", "/beacons", body, key=reader)).status == 403
    assert (await served.call("GET", "/beacons", key=reader)).status == 200
    wrong = await served.call("POST", "/beacons", {"name": "-", FIELD: 0, "x": 1})
    assert {each["field"] for each in wrong.body["problems"]} == {"name", FIELD, "x"}
    unknown = await served.call("PATCH", "/beacons/north", {"lit": True})
    assert (unknown.status, unknown.body["code"]) == (422, "unknown_field")


async def test_the_count_is_limited(served: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settings, "integer", lambda *_: 1)
    await served.call("POST", "/beacons", {"name": "north", FIELD: 40})
    second = await served.call("POST", "/beacons", {"name": "south", FIELD: 40})
    assert (second.status, second.body["detail"]) == (409, "A tenant has at most 1 beacons.")


def schemas() -> dict[str, Any]:
    found: dict[str, Any] = document(with_beacons(), "0")["components"]["schemas"]
    return {name: each for name, each in found.items() if name.startswith(("Beacon", "Created"))}


def test_a_field_is_in_the_document_with_its_text_and_example() -> None:
    having = {n: each["properties"] for n, each in schemas().items() if FIELD in each["properties"]}
    assert having.keys() == {"BeaconSpec", "BeaconPatch", "BeaconView", "CreatedBeacon"}
    for properties in having.values():
        assert properties[FIELD]["description"] == "How bright it is."
        assert properties[FIELD]["examples"] == [40]


def test_a_field_is_in_both_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operation_name.NOUNS, "beacons", "beacon")
    shapes = Shapes()
    found = operations(with_beacons(), shapes)
    where = render.homes(found, shapes)
    mine = [each for each in found if each.group == "beacons"]
    calls = render.group_module("beacons", mine, where, shapes)
    assert {"create", "list", "get", "change", "delete", "douse"} <= {each.name for each in mine}
    assert [each.items for each in mine if each.name == "list"] == [("beacons",)]
    assert f"{FIELD}: int" in calls
    assert f"`{FIELD}`: How bright it is." in calls
    assert f"{FIELD}: int" in render.models("beacons", where, shapes)


def test_a_field_is_an_option_of_the_command_and_a_column_of_its_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command reads the client's method; here the client's module is made in memory."""
    monkeypatch.setitem(operation_name.NOUNS, "beacons", "beacon")
    shapes = Shapes()
    found = operations(with_beacons(), shapes)
    where = render.homes(found, shapes)
    mine = [each for each in found if each.group == "beacons"]
    for name, text in (
        ("postdate.client.models.beacons", render.models("beacons", where, shapes)),
        ("postdate.client.calls.beacons", render.group_module("beacons", mine, where, shapes)),
    ):
        module = ModuleType(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(text, vars(module))
    commands = {verb: OperationCommand(each) for each, verb in noun.operations("beacon")}
    assert {"create", "list", "get", "change", "delete", "douse"} <= commands.keys()
    assert FIELD in commands["list"].operation.columns
    for verb in ("create", "change"):
        option = next(each for each in commands[verb].options if each.name == FIELD)
        shown = option.parameter.annotation.__metadata__[-1]
        assert (shown.name, shown.help) == ((f"--{FIELD}",), "How bright it is.")
        given = {"name": "north", FIELD: 40}
        assert commands[verb].fields(given) == {"name": "north", FIELD: 40}


def test_a_field_is_in_the_forms_and_in_the_request_that_they_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(operation_name.NOUNS, "beacons", "beacon")
    for endpoint in with_beacons():
        monkeypatch.setitem(ENDPOINT_BY_NAME, endpoint.handler.__name__, endpoint)
    for verb, path in (("create", {}), ("change", {"name": "north"})):
        button = Button(f"{verb}_beacon", means="It shines.")
        [field] = [each for each in button.form_fields if each.name == FIELD]
        assert (field.label, field.kind, field.example) == ("Candela", "whole", "40")
        assert field.hint.startswith("How bright it is")
        shown = button.commands(path, {FIELD: "50"})
        assert all("50" in line and FIELD in line for line in shown)
        assert f"Client().beacons.{verb}(" in shown[2]


def test_a_field_is_a_column_of_the_list_and_an_unknown_one_is_refused() -> None:
    assert FIELD in beacon.BEACON.columns
    with pytest.raises(ValueError, match="BeaconView has no field lumen"):
        replace(beacon.BEACON, columns=("lumen",))
    with pytest.raises(ValueError, match="BeaconView has no field code"):
        replace(beacon.BEACON, more_event_fields=("code",))
    with pytest.raises(ValueError, match="BeaconSpec has no field lit"):
        replace(beacon.BEACON, patchable=("lit",))
