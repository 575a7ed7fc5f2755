"""The API's own reference: every operation and every field is explained and exemplified."""

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from postdate.api.endpoints import ENDPOINTS
from postdate.http.openapi import codes_of, document

DOCUMENT = document(ENDPOINTS, "0")
BY_ID = {endpoint.handler.__name__: endpoint for endpoint in ENDPOINTS}
OPERATIONS = [each for methods in DOCUMENT["paths"].values() for each in methods.values()]


def fields(schema: Any, at: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, each in schema.get("properties", {}).items():
        yield f"{at}.{name}", each
        yield from fields(each.get("items", {}), f"{at}.{name}[]")


FIELDS = dict(
    found
    for name, schema in DOCUMENT["components"]["schemas"].items()
    for found in fields(schema, name)
)


def test_an_endpoint_declares_only_the_refusals_that_its_shape_does_not_imply() -> None:
    twice = {
        name: set(endpoint.errors) & set(codes_of(replace(endpoint, errors=())))
        for name, endpoint in BY_ID.items()
    }
    assert {name: codes for name, codes in twice.items() if codes} == {}


def test_every_group_of_operations_is_explained() -> None:
    assert [each["name"] for each in DOCUMENT["tags"] if each["description"] == each["name"]] == []


def test_every_field_is_explained() -> None:
    assert [at for at, each in FIELDS.items() if not each.get("description")] == []


def test_every_parameter_is_explained_and_exemplified() -> None:
    lacking = {
        f"{each['operationId']}: {parameter['name']}"
        for each in OPERATIONS
        for parameter in each["parameters"]
        if "name" in parameter
        and not (
            parameter.get("description")
            and (
                "example" in parameter
                or parameter["in"] == "header"
                or "$ref" in str(parameter["schema"])
            )
        )
    }
    assert lacking == set()


def test_every_field_has_an_example_or_is_made_of_some() -> None:
    assert [at for at, each in FIELDS.items() if not _exemplified(each)] == []


def _exemplified(schema: dict[str, Any]) -> bool:
    if "examples" in schema or "$ref" in schema or "enum" in schema:
        return True
    branches = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if branches:
        return all(map(_exemplified, branches)) or any("enum" in each for each in branches)
    items = schema.get("items", {})
    return "$ref" in items or "properties" in items


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each["operationId"])
def test_every_operation_is_explained(operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert operation.get("description", "").endswith(".")
    assert "_" in operation["operationId"] or operation["operationId"] == "whoami"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each["operationId"])
def test_every_example_is_what_the_operation_takes_and_gives(operation: dict[str, Any]) -> None:
    endpoint = BY_ID[operation["operationId"]]
    if endpoint.body is not None:
        given = operation["requestBody"]["content"]["application/json"]["example"]
        msgspec.json.decode(msgspec.json.encode(given), type=endpoint.body)
    if endpoint.returns is not None:
        answer = operation["responses"][str(endpoint.status)]
        given = answer["content"]["application/json"]["example"]
        msgspec.json.decode(msgspec.json.encode(given), type=endpoint.returns)
        assert given, operation["operationId"]


def test_every_instant_has_its_format() -> None:
    endings = ("_at", "_until", "scheduled_time", ".time", ".since")
    texts = {
        at: branch
        for at, each in FIELDS.items()
        if at.endswith(endings)
        for branch in each.get("anyOf", [each])
        if branch.get("type") == "string"
    }
    assert len(texts) > 100
    assert [at for at, each in texts.items() if each.get("format") != "date-time"] == []


def test_jobs_and_payments_come_first() -> None:
    assert [tag["name"] for tag in DOCUMENT["tags"]][:4] == [
        "jobs", "payments", "schedules", "accounts",
    ]  # fmt: skip


def test_no_word_is_explained_that_nothing_uses() -> None:
    words = tomllib.loads(files("postdate.http").joinpath("fields.toml").read_text())
    shapes = dict(_shapes(DOCUMENT["components"]["schemas"].values()))
    parameters = {p["name"] for each in OPERATIONS for p in each["parameters"] if "name" in p}
    known = {name for names in shapes.values() for name in names}
    qualified = {f"{shape}.{name}" for shape, names in shapes.items() for name in names}
    assert words["fields"].keys() - known - qualified - parameters == set()
    assert words["parameters"].keys() - parameters == set()
    assert words["bodies"].keys() - shapes.keys() == set()


def _shapes(schemas: Any) -> Iterator[tuple[str, set[str]]]:
    for schema in schemas:
        if "properties" in schema:
            yield schema["title"], set(schema["properties"])
            yield from _shapes(each.get("items", {}) for each in schema["properties"].values())
