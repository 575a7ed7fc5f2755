"""Write the OpenAPI 3.1 document from the endpoints."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from postdate.http.endpoint import AnyEndpoint
from postdate.http.field_description import Json, describe_fields, describe_tags
from postdate.http.route_table import parameters_of
from postdate.words.error import EXPLANATIONS, Code
from postdate.words.problem import Problem

_INFO: Final[Json] = {
    "title": "Postdate",
    "summary": "Anything, later, once.",
    "description": "Schedule jobs and payments, once or on a recurring schedule.",
    "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
}
_FIRST: Final = ("jobs", "payments", "schedules", "accounts")
_REF: Final = "#/components/schemas/{name}"
_BODY_CODES: Final = (
    Code.MALFORMED_JSON,
    Code.INVALID_FIELD,
    Code.UNKNOWN_FIELD,
    Code.BODY_INCOMPLETE,
    Code.BODY_TOO_LARGE,
    Code.BODY_TOO_DEEP,
    Code.RECEIVE_TIMEOUT,
    Code.TOO_MANY_OPEN,
    Code.UNSUPPORTED_MEDIA_TYPE,
)
_KEY_CODES: Final = (
    Code.IDEMPOTENCY_KEY_INVALID,
    Code.IDEMPOTENCY_KEY_REUSED,
    Code.IDEMPOTENCY_IN_FLIGHT,
)
_IDEMPOTENCY_KEY: Final[Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Identifies the request; repeating it with the same key does nothing more.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[ -~]+$(?!\n)"},
}
_PARAMETERS: Final[Json] = {
    "request_id": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Your id for this request, used in logs: up to 128 printable ASCII "
        "characters without a space. Otherwise the server generates one.",
        "schema": {"type": "string"},
    },
    "freshness": {
        "name": "Postdate-Freshness",
        "in": "header",
        "description": "The value from the answer to a change: this answer is at least as new.",
        "schema": {"type": "string"},
    },
}
_HEADERS: Final[Json] = {
    "stale": {
        "description": "`possible` if a replica answered: it may lag slightly.",
        "schema": {"type": "string", "enum": ["possible"]},
    },
    "freshness": {
        "description": "If replicas serve reads, send it with reads that must see this change.",
        "schema": {"type": "string"},
    },
    "request_id": {
        "description": "The request's id in the server's log.",
        "schema": {"type": "string"},
    },
    "replayed": {
        "description": "`true` if this is the stored answer to the same key.",
        "schema": {"type": "string", "enum": ["true"]},
    },
    "retry_after": {"description": "Seconds to wait.", "schema": {"type": "integer"}},
}
_SECURITY: Final[Json] = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key."},
    "internal": {"type": "apiKey", "in": "header", "name": "X-Internal-Auth"},
}


def document(endpoints: Sequence[AnyEndpoint], version: str) -> Json:
    """Write the whole document."""
    schemas = _Schemas(endpoints)
    paths: dict[str, Json] = {}
    for endpoint in sorted(endpoints, key=_rank):
        operation = _operation(endpoint, schemas)
        paths.setdefault(endpoint.template, {})[endpoint.method.lower()] = operation
    found: Json = {
        "openapi": "3.1.0",
        "info": {**_INFO, "version": version},
        "servers": [{"url": "/", "description": "The server that shows this document."}],
        "tags": describe_tags(e.tag for e in sorted(endpoints, key=_rank)),
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": schemas.problems,
            "parameters": _PARAMETERS,
            "headers": _HEADERS,
            "securitySchemes": _SECURITY,
        },
    }
    describe_fields(found)
    return found


def _rank(endpoint: AnyEndpoint) -> int:
    """Return where an operation stands: what people come for first, the rest in its own order."""
    return _FIRST.index(endpoint.tag) if endpoint.tag in _FIRST else len(_FIRST)


class _Schemas:
    """The schema of every type named by an endpoint; those of queries are taken apart."""

    def __init__(self, endpoints: Sequence[AnyEndpoint]) -> None:
        types = list(dict.fromkeys([Problem, *(t for e in endpoints for t in _types(e))]))
        found, self.components = msgspec.json.schema_components(types, ref_template=_REF)
        self.of = dict(zip(types, found, strict=True))
        queries = {e.query for e in endpoints if e.query}
        self._queries = {q: self.components.pop(_name(self.of[q])) for q in queries}
        self.problems: Json = {}

    def add_problem(self, status: int, codes: list[Code]) -> str:
        """Describe an answer once for all operations that give it: most of them share theirs."""
        name = ".".join([str(status), *codes])
        if name not in self.problems:
            self.problems[name] = _problem(status, codes)
        return name

    def parameters(self, query: type | None) -> Iterator[Json]:
        """Turn the fields of a query shape into parameters."""
        shape = self._queries[query] if query else {}
        for name, schema in shape.get("properties", {}).items():
            yield {
                "name": name,
                "in": "query",
                "required": name in shape.get("required", []),
                "schema": schema,
            }


def _types(endpoint: AnyEndpoint) -> list[type]:
    return [t for t in (endpoint.body, endpoint.query, endpoint.returns) if t is not None]


def _name(reference: Json) -> str:
    return str(reference["$ref"].rpartition("/")[2])


def _operation(endpoint: AnyEndpoint, schemas: _Schemas) -> Json:
    operation: Json = {
        "operationId": endpoint.handler.__name__,
        "summary": endpoint.summary,
        "tags": [endpoint.tag],
        "parameters": list(_parameters(endpoint, schemas)),
        "responses": _responses(endpoint, schemas),
        "security": _security(endpoint),
    }
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.body is not None:
        schema = schemas.of[endpoint.body]
        operation["requestBody"] = {
            "required": bool(schemas.components[_name(schema)].get("required")),
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _parameters(endpoint: AnyEndpoint, schemas: _Schemas) -> Iterator[Json]:
    for name, is_uuid in parameters_of(endpoint.path):
        schema = {"type": "string", "format": "uuid"} if is_uuid else {"type": "string"}
        yield {"name": name, "in": "path", "required": True, "schema": schema}
    yield from schemas.parameters(endpoint.query)
    if endpoint.idempotency is not None:
        yield {**_IDEMPOTENCY_KEY, "required": endpoint.idempotency == "required"}
    yield {"$ref": "#/components/parameters/request_id"}
    if endpoint.method == "GET":
        yield {"$ref": "#/components/parameters/freshness"}


def _security(endpoint: AnyEndpoint) -> list[Json]:
    match endpoint.scope:
        case None:
            return []
        case "internal":
            return [{"internal": []}]
        case "any":
            return [{"key": []}]
        case scope:
            return [{"key": [scope]}]


def _responses(endpoint: AnyEndpoint, schemas: _Schemas) -> Json:
    success: Json = {"description": endpoint.summary, "headers": _header_refs("request_id")}
    if endpoint.idempotency is not None:
        success["headers"] |= _header_refs("replayed")
    success["headers"] |= _header_refs("stale" if endpoint.method == "GET" else "freshness")
    if endpoint.returns is not None:
        success["content"] = {
            "application/json": {"schema": schemas.of[endpoint.returns]},
            **{media: {"schema": {"type": "string"}} for media in endpoint.files},
        }
    responses = {str(endpoint.status): success}
    by_status: dict[int, list[Code]] = {}
    for code in codes_of(endpoint):
        by_status.setdefault(EXPLANATIONS[code].status, []).append(code)
    for status, codes in sorted(by_status.items()):
        name = schemas.add_problem(status, codes)
        responses[str(status)] = {"$ref": f"#/components/responses/{name}"}
    return responses


def _header_refs(*names: str) -> Json:
    titles = {
        "request_id": "X-Request-Id",
        "replayed": "Idempotency-Replayed",
        "stale": "Postdate-Stale",
        "freshness": "Postdate-Freshness",
        "retry_after": "Retry-After",
    }
    return {titles[name]: {"$ref": f"#/components/headers/{name}"} for name in names}


def _problem(status: int, codes: list[Code]) -> Json:
    headers = ["request_id", "retry_after"] if status in {429, 503} else ["request_id"]
    narrowed = {"properties": {"code": {"enum": codes}}}
    schema = {"allOf": [{"$ref": _REF.format(name="Problem")}, narrowed]}
    return {
        "description": "; ".join(f"`{code}`: {EXPLANATIONS[code].title}" for code in codes),
        "headers": _header_refs(*headers),
        "content": {"application/problem+json": {"schema": schema}},
    }


def codes_of(endpoint: AnyEndpoint) -> list[Code]:
    """List every code an endpoint may answer with: its own and those of the shell."""
    codes = [*endpoint.errors, *_caller_codes(endpoint), *_request_codes(endpoint)]
    if endpoint.method != "GET":
        codes += (Code.OUTCOME_UNKNOWN, Code.CONFLICT)
    codes += (Code.OVERLOADED, Code.UNAVAILABLE, Code.INTERNAL)
    return list(dict.fromkeys(codes))


def _caller_codes(endpoint: AnyEndpoint) -> Iterator[Code]:
    if endpoint.scope is not None:
        yield Code.UNAUTHENTICATED
        yield Code.RATE_LIMITED
    if endpoint.scope not in {None, "internal"} and (
        endpoint.scope != "any" or endpoint.limited == "refused"
    ):
        yield Code.FORBIDDEN
    if endpoint.method != "GET" and endpoint.halted != "served":
        yield Code.TENANT_HALTED


def _request_codes(endpoint: AnyEndpoint) -> Iterator[Code]:
    if "{" in endpoint.path:
        yield Code.NOT_FOUND
    if endpoint.body is not None:
        yield from _BODY_CODES
    if endpoint.query is not None:
        yield from (Code.INVALID_FIELD, Code.UNKNOWN_FIELD)
        if "cursor" in endpoint.query.__struct_fields__:
            yield Code.INVALID_CURSOR
    if endpoint.idempotency is not None:
        yield from _KEY_CODES
    if endpoint.idempotency == "required":
        yield Code.IDEMPOTENCY_KEY_MISSING


def open_shapes(endpoints: Sequence[AnyEndpoint]) -> list[str]:
    """Return the request shapes, nested ones too, that would let unknown fields pass."""
    bodies = list(dict.fromkeys(t for e in endpoints for t in (e.body, e.query) if t is not None))
    _, components = msgspec.json.schema_components(bodies, ref_template=_REF)
    return [
        name
        for name, schema in components.items()
        if "properties" in schema and schema.get("additionalProperties") is not False
    ]
