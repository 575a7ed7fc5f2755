"""The client is complete: every operation, field and error code of the API's own document."""

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from postdate.api.endpoints import ENDPOINTS
from postdate.cli.commands.api import find
from postdate.client import AsyncClient, Client, problems
from postdate.client.models import Problem
from postdate.http.openapi import document
from postdate.words.error import EXPLANATIONS, Code
from sdk import names, source

DOCUMENT = document(ENDPOINTS, "0")
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
BY_ID = {endpoint.handler.__name__: endpoint for endpoint in ENDPOINTS}


def operations() -> Iterator[Any]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            name = f"{method} {path}"
            yield pytest.param(operation, id=name)


OPERATIONS = list(operations())


def test_the_generated_modules_are_those_of_the_endpoints() -> None:
    assert source.stale() == [], "run `make docs`"


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_takes_every_field(operation: dict[str, Any], kind: type) -> None:
    group, name = names.place(BY_ID[operation["operationId"]])
    method = getattr(type(getattr(kind("http://x", "k"), group)), name)
    page = getattr(type(getattr(kind("http://x", "k"), group)), f"{name}_page", method)
    wanted = {names.identifier(each) for each in _inputs(operation)}
    assert wanted <= set(inspect.signature(page).parameters)
    assert method.__doc__


def _inputs(operation: dict[str, Any]) -> Iterator[str]:
    for parameter in operation["parameters"]:
        if parameter.get("in") in {"path", "query"}:
            yield parameter["name"]
        elif parameter.get("name") == "Idempotency-Key":
            yield "idempotency_key"
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        yield from _resolved(schema)["properties"]


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    found: dict[str, Any] = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    return found


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_answer_has_every_field(operation: dict[str, Any]) -> None:
    described = find(operation["operationId"])
    success = next(r for status, r in operation["responses"].items() if status < "300")
    if "content" not in success:
        assert described.returns is None
        return
    schema = success["content"]["application/json"]["schema"]
    assert list(_missing(schema, described.returns, set())) == []


def _missing(schema: dict[str, Any], kind: Any, seen: set[Any]) -> Iterator[str]:
    """Walk a schema and the client's own beside it; name what the client lacks."""
    mine, components = msgspec.json.schema_components([kind], ref_template="#/{name}")
    yield from _compare(schema, mine[0], components, "", seen)


def _compare(
    theirs: dict[str, Any], mine: dict[str, Any], own: dict[str, Any], at: str, seen: set[Any]
) -> Iterator[str]:
    if theirs.get("$ref", "") in seen:
        return
    seen |= {theirs["$ref"]} if "$ref" in theirs else set()
    for branch in theirs.get("anyOf", []):
        yield from _compare(branch, mine, own, at, seen)
    fields, items = _offered(mine, own)
    theirs = _resolved(theirs)
    for name, schema in theirs.get("properties", {}).items():
        if name not in fields:
            yield f"{at}.{name}"
            continue
        yield from _compare(schema, fields[name], own, f"{at}.{name}", seen)
    if "items" in theirs:
        yield from _compare(theirs["items"], items, own, f"{at}[]", seen)


def _offered(mine: dict[str, Any], own: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the fields and the items of a schema of the client, whichever branch has them."""
    mine = own[mine["$ref"].rpartition("/")[2]] if "$ref" in mine else mine
    fields, items = dict(mine.get("properties", {})), mine.get("items", {})
    for branch in mine.get("anyOf", []):
        more, found = _offered(branch, own)
        for name, schema in more.items():
            fields[name] = {"anyOf": [fields[name], schema]} if name in fields else schema
        items = items or found
    return fields, items


def test_every_operation_has_a_name_of_its_own() -> None:
    assert len(BY_ID) == len(ENDPOINTS)


def test_every_error_code_has_its_class() -> None:
    assert set(problems.BY_CODE) == set(SCHEMAS["Code"]["enum"])


def test_the_class_of_a_code_says_what_the_table_of_errors_says() -> None:
    said = EXPLANATIONS[Code.LEASE_LOST]
    assert problems.LeaseLostError.own_code == "lease_lost"
    assert problems.LeaseLostError.__doc__ == f"{said.title}.\n\nHTTP 409. {said.advice}"


def test_a_code_that_this_client_does_not_know_is_taken_as_it_is() -> None:
    body = {"type": "/", "title": "", "status": 409, "detail": "", "request_id": ""}
    found = msgspec.convert({**body, "code": "too_purple"}, Problem)
    assert found.code == "too_purple"


def test_both_clients_have_the_same_calls() -> None:
    found, _ = source.described()
    sync, asynchronous = Client("http://x", "k"), AsyncClient("http://x", "k")
    for each in found:
        one = getattr(getattr(sync, each.group), each.name)
        other = getattr(getattr(asynchronous, each.group), each.name)
        assert inspect.signature(one).parameters == inspect.signature(other).parameters


def test_a_call_with_other_arguments_is_refused_before_it_is_sent() -> None:
    client = Client("http://x", "k")
    with pytest.raises(TypeError, match="missing a required argument: 'job_id'"):
        client.jobs.get()  # type: ignore[call-arg] # what a program without mypy does
    with pytest.raises(TypeError, match="unexpected keyword argument 'tries'"):
        client.jobs.list(tries=1)  # type: ignore[call-arg] # what a program without mypy does


def test_a_missing_field_is_found() -> None:
    class Narrow(msgspec.Struct):
        job_id: str

    schema = {"$ref": "#/components/schemas/JobView"}
    assert ".status" in list(_missing(schema, Narrow, set()))
