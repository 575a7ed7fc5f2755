"""Requests made up from the OpenAPI document: no 5xx, and every answer is as documented."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from conftest import INTERNAL_TOKEN, Api
from postdate.api.endpoints import ENDPOINTS
from postdate.http import openapi
from support.full_tenant import ROWS, FullTenant, build

COMMAND = Path(sys.executable).with_name("schemathesis")
CONFIGURATION = """
# Whether a well-formed request is accepted depends on what there is: its accounts, its time.
[checks.positive_data_acceptance]
enabled = false
[checks.ensure_resource_availability]
enabled = false

# An item of a batch that is not allowed gets its own outcome: the answer as a whole is 200.
[[operations]]
include-path-regex = "/batch$"
[operations.checks.negative_data_rejection]
enabled = false
"""


def tame(document: dict[str, Any]) -> None:
    """Leave out what makes a long poll long, and what would have every other call refused."""
    for path in ("kill-switch", "freeze", "internal/tenants/{name}/disable"):
        document["paths"].pop(f"/api/v1/{path}")
    document["components"]["schemas"]["ClaimBody"]["properties"].pop("wait_seconds")
    events = document["paths"]["/api/v1/events"]["get"]
    events["parameters"] = [p for p in events["parameters"] if p.get("name") != "wait_seconds"]


def exemplify(document: dict[str, Any], full: FullTenant) -> None:
    """Give every operation an example that names what there is: the first phase sends it."""
    for endpoint in ENDPOINTS:
        row = ROWS[f"{endpoint.method} {endpoint.path}"]
        operations = document["paths"].get(endpoint.template)
        if operations is None:
            continue
        operation = operations[endpoint.method.lower()]
        for parameter in operation["parameters"]:
            if parameter.get("in") == "path":
                parameter["example"] = getattr(full, row.thing)
            elif parameter.get("name") == "Idempotency-Key":
                parameter["example"] = str(uuid4())
        if row.body is not None:
            operation["requestBody"]["content"]["application/json"]["example"] = row.body(full)


async def fuzz(api: Api, directory: Path, *more: str) -> tuple[int, str]:
    """Run every phase over every operation as the tenant's admin."""
    document = openapi.document(ENDPOINTS, "0")
    tame(document)
    exemplify(document, await build(api))
    (directory / "schemathesis.toml").write_text(CONFIGURATION)
    path = directory / "schema.json"
    path.write_bytes(msgspec.json.encode(document))
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *("run", path, "--url", api.url, "--no-color"),
        *("--header", f"Authorization: Bearer {api.key}"),
        *("--header", f"X-Internal-Auth: {INTERNAL_TOKEN}"),
        *("--generation-database", "none", "--warnings", "off", "--continue-on-failure"),
        # One thread: `ast.parse` of Python 3.11 may fail when two threads parse at once.
        *("--suppress-health-check", "all", "--request-timeout", "60", "--workers", "1", *more),
        cwd=directory,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def test_made_up_requests_find_no_fault(api: Api, tmp_path: Path) -> None:
    code, said = await fuzz(api, tmp_path, "--max-time", "8", "--seed", "7")
    assert code == 0, said


@pytest.mark.soak
async def test_many_made_up_requests_find_no_fault(api: Api, tmp_path: Path) -> None:
    # Following links, it finds the key that it uses, and would revoke it.
    code, said = await fuzz(api, tmp_path, "--max-time", "600", "--exclude-path-regex", "/keys/")
    assert code == 0, said


def patterns(schema: Any) -> Iterator[str]:
    """Walk a document and give every pattern in it."""
    match schema:
        case dict():
            if isinstance(schema.get("pattern"), str):
                yield schema["pattern"]
            for value in schema.values():
                yield from patterns(value)
        case list():
            for value in schema:
                yield from patterns(value)


def test_no_pattern_lets_a_trailing_line_feed_pass() -> None:
    found = list(patterns(openapi.document(ENDPOINTS, "0")))
    assert found
    # In Python `$` also stands before a last line feed; elsewhere the addition changes nothing.
    assert [pattern for pattern in found if not pattern.endswith(r"$(?!\n)")] == []
