"""What the shell serves beside endpoints: documents, health, metrics, pages; and what it logs."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from postdate.api.guide import ADDRESS, site_path
from postdate.api.health import NotReady
from postdate.node.log import add_origin
from postdate.words.error import Code
from support.log import capture_logs
from support.raw_http import Running, make_app, serving
from support.sample_app import KEY, NOT_READY, endpoint, get_name, make_thing, post, sample_app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
async def running() -> AsyncIterator[Running]:
    async with serving(sample_app()) as served:
        served.headers = {"authorization": f"Bearer {KEY}"}
        yield served


@pytest.mark.parametrize("path", ["/api/v1/whoami", "/api/v1/nothing", "/healthz", "/docs", "/x"])
async def test_every_answer_has_the_security_headers(running: Running, path: str) -> None:
    headers = (await running.ask("GET", path)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["referrer-policy"] == "no-referrer"
    assert len(headers["x-request-id"]) == 32


async def test_extra_pages_are_served_within_the_limits(running: Running) -> None:
    answer = await running.ask("GET", "/console/a")
    assert (answer.body, answer.headers["cache-control"]) == (b"page", "public")
    assert (await running.ask("POST", "/console/a", b"12345")).body == b"5"
    large = await running.ask("POST", "/console/a", b"x" * (256 * 1024 + 1))
    assert (large.status, large.json["code"]) == (413, "body_too_large")


async def test_a_failing_page_is_a_problem_too(running: Running) -> None:
    with capture_logs() as logs:
        answer = await running.ask("GET", "/console/boom")
    assert (answer.status, answer.json["code"]) == (500, "internal")
    assert len([entry for entry in logs if entry["event"] == "request failed"]) == 1


async def test_readiness_says_what_is_not_ready(running: Running) -> None:
    nothing: dict[str, Any] = {"reasons": [], "degraded": [], "overdue": []}
    well = {"ready": True, "reads": True, "writes": True}
    assert (await running.ask("GET", "/readyz")).json == {**well, **nothing}
    NOT_READY.append(NotReady("database", "starting", ["writes"]))
    try:
        answer = await running.ask("GET", "/readyz")
    finally:
        NOT_READY.clear()
    assert answer.status == 503
    assert answer.json == nothing | {
        "ready": False,
        "reads": True,
        "writes": False,
        "reasons": [{"name": "database", "reason": "starting", "stops": ["writes"]}],
    }


async def test_requests_are_counted_by_template(running: Running) -> None:
    await running.ask("GET", "/api/v1/names/secret-name")
    text = (await running.ask("GET", "/metrics")).body.decode()
    labels = 'method="GET",route="/api/v1/names/{name}",status="200"'
    assert f"postdate_http_requests_total{{{labels}}}" in text
    assert f"postdate_http_request_seconds_count{{{labels}}}" in text
    assert "secret-name" not in text


async def test_no_secret_reaches_the_log(
    running: Running, capfd: pytest.CaptureFixture[str]
) -> None:
    with capture_logs(add_origin) as logs:
        await running.ask("GET", "/api/v1/things?cursor=query-canary")
        await running.ask("GET", "/api/v1/names/path-canary")
        await post(running, b"]", authorization="Bearer wrong-canary")
        await post(running, b'{"amount":5,"note":"body-canary"}', idempotency_key="key-canary")
    requests = [entry for entry in logs if entry["event"] == "request"]
    assert [entry["status"] for entry in requests] == [422, 200, 401, 201]
    assert {entry["route"] for entry in requests} == {
        "/api/v1/things",
        "/api/v1/names/{name}",
    }
    assert all(entry["request_id"] for entry in requests)
    assert requests[-1]["tenant"] == "acme"
    out, err = capfd.readouterr()
    assert "canary" not in f"{logs}{out}{err}"


async def test_the_document_resolves_and_names_everything(running: Running) -> None:
    document = (await running.ask("GET", "/schema")).json
    assert (await running.ask("GET", "/openapi.json")).json == document
    assert document["openapi"] == "3.1.0"
    for reference in references(document):
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    create = document["paths"]["/api/v1/things"]["post"]
    assert create["security"] == [{"key": ["jobs:write"]}]
    assert {"201", "400", "401", "403", "409", "413", "415", "422", "500"} <= set(
        create["responses"]
    )
    names = {p["name"] for p in create["parameters"] if "name" in p}
    assert "Idempotency-Key" in names
    assert "Idempotency-Replayed" in create["responses"]["201"]["headers"]
    listing = document["paths"]["/api/v1/things"]["get"]
    limit = next(p for p in listing["parameters"] if p.get("name") == "limit")
    assert (limit["schema"]["maximum"], limit["required"]) == (100, False)
    one = document["paths"]["/api/v1/things/{thing_id}"]["get"]
    assert one["parameters"][0]["schema"] == {"type": "string", "format": "uuid"}


def references(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if "$ref" in node else []
        return own + [found for value in node.values() for found in references(value)]
    if isinstance(node, list):
        return [found for value in node for found in references(value)]
    return []


async def test_the_pages_show_every_route_and_code(running: Running) -> None:
    docs = (await running.ask("GET", "/docs")).body.decode()
    # Nothing runs but what this server serves as a file: the policy allows no script in the page.
    loaded = re.findall(r'(?:src|stylesheet" href)="([^"]+)"', docs)
    assert len(re.findall("<script|<style| on[a-z]+=", docs)) == 2
    assert {(await running.ask("GET", path)).status for path in loaded} == {200}
    errors = (await running.ask("GET", "/docs/errors")).body.decode()
    assert all(f'id="{code}"' in errors for code in Code)
    assert (
        (await running.ask("GET", "/docs/style.css")).headers["content-type"].startswith("text/css")
    )


async def test_the_guide_shows_every_page_and_no_link_is_dead(running: Running) -> None:
    left, seen = [ADDRESS], set[str]()
    while left:
        address = left.pop()
        answer = await running.ask("GET", address)
        assert answer.status == 200, address
        seen.add(address)
        if answer.headers["content-type"].startswith("text/html"):
            found = re.findall(rf'(?:href|src)="({ADDRESS}[^"#]*)', answer.body.decode())
            left += [each for each in dict.fromkeys(found) if each not in {*seen, *left}]
    pages = (path for path in (ROOT / "docs").rglob("*.md") if path.name != "index.md")
    assert {f"{ADDRESS}/{site_path(str(path.relative_to(ROOT)))}" for path in pages} < seen


async def test_the_guide_shows_no_file_that_no_page_links_to(running: Running) -> None:
    for place in ("nope", "root/pyproject.toml", "root/deploy/compose/.env", "%2e%2e/%2e%2e/x.md"):
        assert (await running.ask("GET", f"{ADDRESS}/{place}")).status == 404, place


async def test_the_guide_is_searched(running: Running) -> None:
    found = (await running.ask("GET", f"{ADDRESS}/search?q=daylight+saving")).body.decode()
    assert f'{ADDRESS}/concepts/dst"' in found
    hostile = (await running.ask("GET", f"{ADDRESS}/search?q=%3Cscript%3E")).body.decode()
    assert "<script" not in hostile


def test_a_shape_that_lets_unknown_fields_pass_is_not_served() -> None:
    class Loose(msgspec.Struct):
        x: int

    with pytest.raises(TypeError, match="Loose"):
        make_app([endpoint("POST", "/loose", make_thing, body=Loose)])


def test_a_route_declared_twice_is_a_mistake() -> None:
    twice = endpoint("GET", "/names/{name}", get_name)
    with pytest.raises(ValueError, match="declared twice"):
        make_app([twice, twice])
