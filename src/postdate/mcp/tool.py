"""What an assistant may call: each operation of the API as a tool with its schema."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec

from postdate.core.identity import Scope
from postdate.http.endpoint import BASE, AnyEndpoint
from postdate.http.field_description import Json
from postdate.http.openapi import document
from postdate.resource.resource import declared_by

CONFIRM: Final = "confirm"
UNSUITABLE: Final = frozenset({"leases", "test clock"})
"""Groups of operations for programs: a worker's leases, a test's clock."""
SECRET: Final = frozenset({"get_signing_secret", "rotate_signing_secret"})
"""Operations that answer with a secret, beside those whose nouns declare it."""

_CONFIRM_TEXT: Final = (
    "Leave it out for a dry run, which shows the request and returns the value to give here."
)
_REF: Final = re.compile(r"^#/components/schemas/(\w+)$")


class PreparedCall(msgspec.Struct, frozen=True):
    """A request of the API that a tool stands for."""

    method: str
    path: str
    query: Json
    body: Json | None


class ApiTool(msgspec.Struct, frozen=True):
    """One tool: its name, its text, the schema of its arguments, and the request it makes."""

    name: str
    description: str
    schema: Json
    endpoint: AnyEndpoint
    path_names: tuple[str, ...]
    query_names: tuple[str, ...]

    @property
    def reads(self) -> bool:
        """Return whether it changes nothing."""
        return self.endpoint.method == "GET"

    def trouble(self, arguments: Mapping[str, Any]) -> str | None:
        """Return what is wrong with the arguments; a misspelt filter is no filter."""
        if missing := [name for name in self.schema["required"] if name not in arguments]:
            return f"give {', '.join(missing)}"
        if unknown := sorted(set(arguments) - set(self.schema["properties"])):
            return f"{self.name} takes no {', '.join(unknown)}"
        # As part of a path they would name something else.
        if dots := [name for name in self.path_names if str(arguments[name]) in {"", ".", ".."}]:
            return f"{dots[0]} names nothing"
        return None

    def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Return the request for these arguments."""
        path = self.endpoint.template.removeprefix(BASE)
        for name in self.path_names:
            path = path.replace(f"{{{name}}}", quote(str(arguments[name]), safe=""))
        query = {name: arguments[name] for name in self.query_names if name in arguments}
        taken = {*self.path_names, *self.query_names, CONFIRM}
        body = {name: value for name, value in arguments.items() if name not in taken}
        sent = body if self.endpoint.body is not None else None
        return PreparedCall(self.endpoint.method, path, query, sent)


class Confirmations:
    """Binds a confirmation to the exact request that a dry run has shown."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def of(self, call: PreparedCall) -> str:
        """Return what confirms this request, and no other."""
        written = msgspec.json.encode(call, order="sorted")
        return hmac.new(self._secret, written, hashlib.sha256).hexdigest()[:32]

    def fits(self, call: PreparedCall, given: str) -> bool:
        """Return whether this request was shown by a dry run before."""
        return hmac.compare_digest(self.of(call).encode(), given.encode())


def tools(endpoints: Sequence[AnyEndpoint], allowed: Collection[Scope]) -> list[ApiTool]:
    """Return a tool for each operation that reads, or that writes by an allowed scope."""
    described = document(endpoints, "")
    by_name = {
        found["operationId"]: found
        for path in described["paths"].values()
        for found in path.values()
        if isinstance(found, dict) and "operationId" in found
    }
    return [
        _tool(endpoint, by_name[endpoint.handler.__name__], described["components"]["schemas"])
        for endpoint in endpoints
        if endpoint.tag not in UNSUITABLE
        and not _answers_a_secret(endpoint)
        and (endpoint.method == "GET" or endpoint.scope in allowed)
        and endpoint.scope not in {None, "internal"}
        and endpoint.returns is not None
    ]


def _answers_a_secret(endpoint: AnyEndpoint) -> bool:
    """Return whether the answer has a secret: what an assistant reads leaves this machine."""
    declared = declared_by(endpoint.handler)
    return endpoint.handler.__name__ in SECRET or bool(declared and declared.shown_once)


def _tool(endpoint: AnyEndpoint, described: Json, schemas: Json) -> ApiTool:
    properties: Json = {}
    required: list[str] = []
    names: dict[str, list[str]] = {"path": [], "query": []}
    for each in described.get("parameters", []):
        if each.get("in") in names:
            names[each["in"]].append(each["name"])
            text = {"description": each["description"]} if "description" in each else {}
            properties[each["name"]] = {**each["schema"], **text}
            required += [each["name"]] if each.get("required") else []
    body = _body(described, schemas)
    properties |= body.get("properties", {})
    required += body.get("required", [])
    if endpoint.method != "GET":
        properties[CONFIRM] = {"type": "string", "description": _CONFIRM_TEXT}
    schema: Json = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    if used := {name: schemas[name] for name in _used(properties, schemas)}:
        schema["$defs"] = used
    return ApiTool(
        name=endpoint.handler.__name__,
        description=f"{endpoint.summary}. {endpoint.description}".strip(),
        schema=_with_own_refs(schema),
        endpoint=endpoint,
        path_names=tuple(names["path"]),
        query_names=tuple(names["query"]),
    )


def _body(described: Json, schemas: Json) -> Json:
    content = described.get("requestBody", {}).get("content", {})
    found: Json = content.get("application/json", {}).get("schema", {})
    name = _REF.match(found.get("$ref", ""))
    whole: Json = schemas[name[1]] if name else found
    return whole


def _used(value: Any, schemas: Json) -> set[str]:
    """Return the schemas that a value needs, directly and through others."""
    found: set[str] = set()
    waiting = list(_refs(value))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _refs(schemas[name])
    return found


def _refs(value: Any) -> Iterator[str]:
    match value:
        case {"$ref": str(ref)} if name := _REF.match(ref):
            yield name[1]
        case dict():
            for each in value.values():
                yield from _refs(each)
        case list():
            for each in value:
                yield from _refs(each)


def _with_own_refs(value: Any) -> Any:
    match value:
        case str():
            return value.replace("#/components/schemas/", "#/$defs/")
        case dict():
            return {key: _with_own_refs(each) for key, each in value.items()}
        case list():
            return [_with_own_refs(each) for each in value]
        case _:
            return value
