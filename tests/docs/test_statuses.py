"""Statuses are written in one case, wherever the API shows one."""

from collections.abc import Iterator
from typing import Any

from postdate.api.endpoints import ENDPOINTS
from postdate.http import openapi

REFERENCE = "#/components/schemas/"


def named(node: Any, name: str) -> Iterator[Any]:
    """Find every property and parameter of this name."""
    if isinstance(node, dict):
        if node.get("name") == name and "schema" in node:
            yield node["schema"]
        for key, value in node.items():
            if key == "properties" and name in value:
                yield value[name]
            yield from named(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from named(value, name)


def words(schema: Any, schemas: dict[str, Any]) -> Iterator[str]:
    """Give the words that a schema allows."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].removeprefix(REFERENCE)]
    for part in schema.get("anyOf", ()):
        yield from words(part, schemas)
    yield from schema.get("enum", ())


def test_every_status_is_in_capitals() -> None:
    document = openapi.document(ENDPOINTS, "test")
    schemas = document["components"]["schemas"]
    found = {word for schema in named(document, "status") for word in words(schema, schemas)}
    assert {"PENDING", "FAILING", "SET_ASIDE", "SKIPPED_BY_DST"} <= found
    assert [word for word in found if word != word.upper()] == []
