"""The fields of a form, from the body of its operation as the OpenAPI document describes it."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import inspect

from postdate.console.form_field import FieldKind, FieldSpec, FormField
from postdate.core.money import MINOR_UNIT, MONEY_FIELDS
from postdate.http.endpoint import AnyEndpoint
from postdate.http.field_description import Json
from postdate.http.openapi import document

_CONTAINERS: Final = frozenset({"changes", "filter", "template", "to", "0"})
"""Parts of a path that say nothing to a person."""
_LABEL_PARTS: Final = 2
_CAPITALS: Final = {"url": "URL", "rrule": "RRULE", "dst": "DST"}
_SCALARS: Final[Mapping[str, FieldKind]] = {
    "string": "text",
    "integer": "whole",
    "number": "decimal",
    "boolean": "checkbox",
}
_LEFT_OUT: Final = re.compile(r"\b(absent|null)\b")
_UNBOUNDED: Final = 2**53
"""From here on a bound is that of a number of JSON, and says nothing about the field."""


class BodySchema:
    """The schema of one body; `fixed` values of a form choose between the shapes of a union."""

    def __init__(self, endpoint: AnyEndpoint, fixed: Mapping[str, Any]) -> None:
        self._operation = endpoint.handler.__name__
        self._fixed = fixed
        self._secrets = set(_secrets(endpoint.body))
        described = document([endpoint], "")
        self._shared: Json = described["components"]["schemas"]
        asked = described["paths"][endpoint.template][endpoint.method.lower()]
        body = asked.get("requestBody", {"content": {"application/json": {"schema": {}}}})
        self._root = self._resolved(body["content"]["application/json"]["schema"])

    def names(self) -> list[str]:
        """Return the fields of the body, in their order."""
        return list(self._root.get("properties", {}))

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Return the fields without which a request is refused."""
        return tuple(self._root.get("required", ()))

    def field(self, asked: FieldSpec) -> FormField:
        """Make the field of a form: its kind, choices, bounds and hint are those of its type."""
        schema, required = self._find(asked.name)
        shapes = self._shapes(schema)
        kind, choices = _kind(shapes)
        money = kind == "whole" and asked.name.rpartition(".")[2] in MONEY_FIELDS
        hints = _hints(schema, shapes, kind, choices)
        if not asked.required:
            hints = chain(hints, _default(schema))
        return FormField(
            name=asked.name,
            label=asked.label or label_of(asked.name),
            kind="choice" if asked.choices else kind,
            hint=asked.hint or "; ".join(hints).replace(f", {MINOR_UNIT}", ""),
            example="" if money else _example([schema, *shapes], kind),
            required=required or asked.required,
            insisted=asked.required and not required,
            choices=asked.choices or (choices if kind == "choice" else ()),
            nullable=_takes_null(schema),
            max_length=next((each["maxLength"] for each in shapes if "maxLength" in each), None),
            money=money,
            secret=asked.name in self._secrets,
            late=asked.late,
            folded=asked.folded,
            only=asked.only,
        )

    def _find(self, name: str) -> tuple[Json, bool]:
        """Return the schema at a path, and whether a request without a value there is refused."""
        schema, required, path = self._root, True, ""
        for part in name.split("."):
            found = self._member(schema, part, path)
            if found is None:
                raise LookupError(f"{self._operation} has no field {name}")
            schema, required = self._resolved(found[0]), required and found[1]
            path = f"{path}{part}."
        return schema, required

    def _member(self, schema: Json, part: str, path: str) -> tuple[Json, bool] | None:
        if schema.get("type") == "array":
            return (schema["items"], True) if part.isdecimal() else None
        tags = schema.get("discriminator", {"propertyName": None, "mapping": {}})
        given = not _takes_null(schema)
        chosen = tags["mapping"].get(self._fixed.get(f"{path}{tags['propertyName']}"))
        if part == tags["propertyName"]:
            return {"enum": list(tags["mapping"])}, given
        shapes = [self._resolved({"$ref": chosen})] if chosen else self._shapes(schema)
        holders = [each for each in shapes if part in each.get("properties", {})]
        if not holders:
            return None
        needed = given and len(shapes) == 1 and part in holders[0].get("required", ())
        return holders[0]["properties"][part], needed

    def _shapes(self, schema: Json) -> list[Json]:
        """Return every shape that a value may have, null aside."""
        found = [self._resolved(each) for each in schema.get("anyOf", [schema])]
        return [each for each in found if each.get("type") != "null"]

    def _resolved(self, schema: Json) -> Json:
        """Follow references; what stands beside a reference comes first."""
        if "items" in schema:
            schema = {**schema, "items": self._resolved(schema["items"])}
        if "$ref" not in schema:
            return schema
        found = self._shared[schema["$ref"].rpartition("/")[2]]
        return {**found, **{name: each for name, each in schema.items() if name != "$ref"}}


def _secrets(body: type[msgspec.Struct] | None) -> Iterator[str]:
    """Return the fields whose type says that they are secret."""
    described = None if body is None else inspect.type_info(body)
    for each in described.fields if isinstance(described, inspect.StructType) else ():
        if isinstance(each.type, inspect.Metadata) and (each.type.extra or {}).get("secret"):
            yield each.encode_name


def label_of(name: str) -> str:
    """Write the path of a field as words: `misfire.late_after_seconds` is a time in seconds."""
    parts = name.split(".")
    own = [part for part in parts if part not in _CONTAINERS] or parts
    words = " ".join(own[-_LABEL_PARTS:]).removesuffix("_id").replace("_", " ").split(" ")
    unit = " (seconds)" if words[-1] == "seconds" and len(words) > 1 else ""
    text = " ".join(_CAPITALS.get(word, word) for word in (words[:-1] if unit else words))
    return f"{text[:1].upper()}{text[1:]}{unit}"


def _takes_null(schema: Json) -> bool:
    return any(each.get("type") == "null" for each in schema.get("anyOf", ()))


def _kind(shapes: list[Json]) -> tuple[FieldKind, tuple[str, ...]]:
    """Return how values of these shapes are typed in, and the words to choose from."""
    if shapes and all("enum" in each for each in shapes):
        return "choice", tuple(str(word) for each in shapes for word in each["enum"])
    kinds = {each.get("type", "") for each in shapes}
    match shapes:
        case [{"format": "date-time"}]:
            return "datetime-local", ()
        case [{"type": "array", "items": items}]:
            words = tuple(map(str, items.get("enum", ())))
            return ("lines", words) if words or items.get("type") == "string" else ("json", ())
        case [{"type": kind}] if kind in _SCALARS:
            return _SCALARS[kind], ()
        case _ if kinds and kinds <= _SCALARS.keys():
            return "scalar", ()
        case _:
            return "json", ()


def _hints(
    schema: Json, shapes: list[Json], kind: FieldKind, choices: tuple[str, ...]
) -> Iterator[str]:
    """Say what a field means, how it is written, and its bounds."""
    # In a form, a field that is absent or null is an empty one.
    text = _LEFT_OUT.sub("empty", schema.get("description", ""))
    if text:
        yield text.removesuffix(".")
    if kind == "datetime-local":
        yield "in UTC"
    if kind == "json" and "JSON" not in text:
        yield "JSON"
    if kind == "lines":
        yield f"one a line{': ' + ', '.join(choices) if choices else ''}"
    yield from _bounds(shapes)


def _default(schema: Json) -> Iterator[str]:
    """Say what an empty field stands for."""
    default = schema.get("default")
    if default and isinstance(default, str | int | float) and default is not True:
        yield f"{default:,} if empty" if isinstance(default, int) else f"`{default}` if empty"


def _bounds(shapes: list[Json]) -> Iterator[str]:
    for each in shapes:
        low, high = each.get("minimum"), each.get("maximum")
        if low is None or high is None or abs(low) >= _UNBOUNDED:
            continue
        yield f"{low:,} to {high:,}" if high < _UNBOUNDED else f"at least {low:,}"


def _example(schemas: list[Json], kind: FieldKind) -> str:
    """Return an example of what is typed; other kinds show what they take by themselves."""
    match kind, next((each["examples"] for each in schemas if "examples" in each), ()):
        case "lines", [list(found), *_]:
            return "\n".join(map(str, found))
        case "json", [found, *_]:
            return json.dumps(found, ensure_ascii=False)
        case "text" | "whole" | "decimal" | "scalar", [found, *_]:
            return str(found)
        case _:
            return ""
