"""The static reference of the HTTP API: a page for each group of operations, from the document."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from postdate.api.endpoints import ENDPOINTS
from postdate.core.identity import Scope
from postdate.http import openapi

FOLDER: Final = "docs/reference/api/"
COMMON: Final = 0.5
"""Share of the operations that have a code, above which the code is listed once for all."""

Node = Mapping[str, Any]


@cache
def document() -> Node:
    """Return the OpenAPI document, as the server serves it."""
    described: Node = json.loads(json.dumps(openapi.document(ENDPOINTS, version("postdate"))))
    return described


@cache
def operations() -> Mapping[str, list[tuple[str, Node]]]:
    """Return the operations of each group, with their method and path."""
    found: dict[str, list[tuple[str, Node]]] = {}
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            found.setdefault(operation["tags"][0], []).append(
                (f"{method.upper()} {path}", operation)
            )
    return found


def page(group: str) -> str:
    """Write the page of one group: its operations, and the shapes that they use."""
    mine = operations()[group]
    shapes = dict.fromkeys(name for _, each in mine for name in _shapes_of(each))
    parts = [_operation(route, each) for route, each in mine]
    return "\n\n".join([*parts, *(_shape(name) for name in shapes)])


def index() -> str:
    """List the groups with their operations."""
    lines = []
    for group, mine in operations().items():
        names = ", ".join(f"`{each['operationId']}`" for _, each in mine)
        lines.append(f"- [{group}]({file_name(group)}): {names}")
    return "\n".join([*lines, "", _common_errors()])


def file_name(group: str) -> str:
    """Return the name of a group's page."""
    return f"{group.replace(' ', '-')}.md"


def blocks() -> Mapping[str, str]:
    """Return the page and the name of each group's generated part."""
    return {f"{FOLDER}{file_name(each)}": f"api {each}".replace(" ", "-") for each in operations()}


def new_page(group: str, name: str) -> str:
    """Write the page of a group that has none yet."""
    title = f"API: {group}"
    return f"# {title}\n\n<!-- generated: {name} -->\n<!-- end -->\n"


def scopes() -> str:
    """Write the table of scopes: which operations each allows."""
    lines = ["| scope | allows |", "|---|---|"]
    for scope in Scope:
        names = [
            f"`{each['operationId']}`"
            for mine in operations().values()
            for _, each in mine
            if scope in _scopes_of(each)
        ]
        lines.append(f"| `{scope}` | {', '.join(names)} |")
    open_to_all = [
        f"`{each['operationId']}`"
        for mine in operations().values()
        for _, each in mine
        if not _scopes_of(each)
    ]
    said = "no scope: the operation's text says who may"
    return "\n".join([*lines, f"| {said} | {', '.join(open_to_all)} |"])


def _scopes_of(operation: Node) -> list[str]:
    return [
        scope for way in operation.get("security", ()) for each in way.values() for scope in each
    ]


def _operation(route: str, operation: Node) -> str:
    scope = ", ".join(f"`{each}`" for each in _scopes_of(operation))
    codes = [code for code in _errors_of(operation) if code not in _common()]
    parts = [
        f"## {operation['operationId']}",
        f"`{route}`" + (f" · scope {scope}" if scope else ""),
        f"{operation['summary']}. {operation.get('description', '')}".strip(),
        _parameters(operation),
        _body(operation),
        _answers(operation),
        f"Errors beside the [common ones](index.md): {_linked(codes)}." if codes else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _errors_of(operation: Node) -> list[str]:
    """List the error codes of an operation."""
    return [
        code
        for status, answer in operation["responses"].items()
        if not status.startswith("2") and "$ref" in answer
        for code in answer["$ref"].rpartition("/")[2].split(".")[1:]
    ]


@cache
def _common() -> frozenset[str]:
    """Return the codes that most operations have."""
    every = [each for mine in operations().values() for _, each in mine]
    counted = Counter(code for each in every for code in _errors_of(each))
    return frozenset(code for code, count in counted.items() if count > len(every) * COMMON)


def _common_errors() -> str:
    return (
        f"Every operation may also answer with one of these errors: {_linked(sorted(_common()))}."
    )


def _linked(codes: Iterable[str]) -> str:
    return ", ".join(f"[{code}](../errors.md#{code})" for code in codes)


def _parameters(operation: Node) -> str:
    found = [each for each in operation.get("parameters", ()) if "$ref" not in each]
    if not found:
        return ""
    rows = [
        f"| `{each['name']}` | {each['in']} | {_type(each['schema'])}"
        f" | {'yes' if each.get('required') else ''} | {_line(each.get('description', ''))} |"
        for each in found
    ]
    return "\n".join(["| parameter | in | type | required | |", "|---|---|---|---|---|", *rows])


def _body(operation: Node) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    parts = []
    for media, each in content.items():
        parts.append(f"Body ({media}): {_type(each['schema'])}.")
        if "example" in each:
            parts.append(_json(each["example"]))
    return "\n\n".join(parts)


def _answers(operation: Node) -> str:
    parts = []
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            shapes = [_type(each["schema"]) for each in answer.get("content", {}).values()]
            parts.append(f"Answer {status}: {', '.join(shapes) or 'empty'}.")
    return "\n\n".join(parts)


def _json(value: object) -> str:
    return f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```"


def _shape(name: str) -> str:
    shape = document()["components"]["schemas"][name]
    required = shape.get("required", ())
    rows = [
        f"| `{field}` | {_type(each)} | {'yes' if field in required else ''}"
        f" | {_line(_description(each))} |"
        for field, each in shape.get("properties", {}).items()
    ]
    head = f"### {name}\n\n{_line(shape.get('description', ''))}".rstrip()
    if not rows:
        return f"{head}\n\n{_type(shape)}"
    return "\n".join([head, "", "| field | type | required | |", "|---|---|---|---|", *rows])


def _description(node: Node) -> str:
    nested = (each.get("description", "") for each in (*node.get("anyOf", ()), node))
    return next((each for each in (node.get("description", ""), *nested) if each), "")


def _line(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _shapes_of(operation: Node) -> Iterator[str]:
    """List the shapes that bodies and answers use, step by step."""
    answers = (each for status, each in operation["responses"].items() if status.startswith("2"))
    left = [
        *_named(operation.get("requestBody", {})),
        *(n for each in answers for n in _named(each)),
    ]
    seen: dict[str, None] = {}
    while left:
        name = left.pop(0)
        if name not in seen:
            seen[name] = None
            left += _named(document()["components"]["schemas"][name])
    yield from seen


def _named(node: object) -> Iterator[str]:
    if isinstance(node, dict):
        if str(node.get("$ref", "")).startswith("#/components/schemas/"):
            yield node["$ref"].rpartition("/")[2]
        for key, value in node.items():
            if key not in {"example", "examples", "headers"}:
                yield from _named(value)
    elif isinstance(node, list):
        for each in node:
            yield from _named(each)


def _type(node: Node) -> str:
    """Say what a value may be: its type, its bounds, its choices."""
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf"):
        if several in node:
            return " or ".join(dict.fromkeys(_type(each) for each in node[several]))
    if "enum" in node:
        return ", ".join(f"`{json.dumps(each)}`" for each in node["enum"])
    if "const" in node:
        return f"`{json.dumps(node['const'])}`"
    if node.get("type") == "array":
        return f"list of {_type(node.get('items', {}))}{_bounds(node, 'Items')}"
    said = node.get("type", "any JSON")
    names = " or ".join(said) if isinstance(said, list) else str(said)
    return names + _format(node) + _bounds(node, "Length") + _range(node)


def _format(node: Node) -> str:
    return f" ({node['format']})" if "format" in node else ""


def _bounds(node: Node, what: str) -> str:
    low, high = node.get(f"min{what}"), node.get(f"max{what}")
    unit = "items" if what == "Items" else "characters"
    if low is None and high is None:
        return ""
    return f", {low or 0} to {high} {unit}" if high is not None else f", at least {low} {unit}"


def _range(node: Node) -> str:
    low, high = node.get("minimum"), node.get("maximum")
    if low is None and high is None:
        return ""
    if high is None:
        return f", at least {low}"
    return f", at most {high}" if low is None else f", {low} to {high}"
