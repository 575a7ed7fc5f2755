"""Say what each field of the OpenAPI document means, and show an example of it and of each body."""

import tomllib
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

Json = dict[str, Any]
"""A part of the OpenAPI document."""

_TYPES: Final[dict[str, set[type]]] = {
    "string": {str},
    "integer": {int},
    "number": {int, float},
    "boolean": {bool},
    "object": {dict},
    "null": set(),
}
_REF: Final = "#/components/schemas/"
_JSON: Final = "application/json"


def describe_fields(document: Json) -> None:
    """Add a description and an example to every field, parameter, body and answer."""
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        for shape in _shapes(schema):
            _describe(shape)
    examples = _Examples(schemas)
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                _describe_parameter(parameter)
            _exemplify(operation, examples)


def describe_tags(tags: Iterable[str]) -> list[Json]:
    """Say what each group of operations is about."""
    words = _words()["tags"]
    return [{"name": tag, "description": words.get(tag, tag)} for tag in dict.fromkeys(tags)]


@cache
def _words() -> Json:
    return tomllib.loads(files("postdate.http").joinpath("fields.toml").read_text())


def _shapes(schema: Json) -> Iterator[Json]:
    """Find the objects in a schema, those inside its lists too."""
    if "properties" in schema:
        yield schema
    for inner in (schema.get("items"), *schema.get("properties", {}).values()):
        if isinstance(inner, dict):
            yield from _shapes(inner)


def _word(title: str, name: str) -> list[Any]:
    fields = _words()["fields"]
    found: list[Any] = fields.get(f"{title}.{name}") or fields.get(name, [])
    return found


def _describe(shape: Json) -> None:
    for name, schema in shape["properties"].items():
        text, *example = _word(shape.get("title", ""), name) or [""]
        _set_description(schema, text)
        if example and _example_fits(schema, example[0]):
            schema.setdefault("examples", example)
        if "examples" in schema:
            _mark_instant(schema, schema["examples"][0])


def _set_description(schema: Json, text: str) -> None:
    """Describe a field, unless the code has words of its own, at the top or in a branch."""
    own = [schema, *schema.get("anyOf", ())]
    found = next((each["description"] for each in own if "description" in each), text)
    if found:
        schema["description"] = found


def _example_fits(schema: Json, example: Any) -> bool:
    """Return whether an example of a word is one of this field: some words have several types."""
    return any(_is_one(each, example) for each in schema.get("anyOf", [schema]))


def _is_one(schema: Json, example: Any) -> bool:
    match schema:
        case {"$ref": _}:
            return False
        case {"enum": words}:
            return example in words
        case {"type": "array", "items": items}:
            return isinstance(example, list) and ("$ref" not in items or _is_scope(items))
        case {"type": kind}:
            return type(example) in _TYPES[kind]
        case _:
            return True


def _is_scope(schema: Json) -> bool:
    return bool(schema["$ref"].endswith("/Scope"))


def _mark_instant(schema: Json, example: Any) -> None:
    for each in schema.get("anyOf", [schema]):
        if each.get("type") == "string" and "format" not in each and _is_instant(example):
            each["format"] = "date-time"


def _is_instant(example: Any) -> bool:
    try:
        return isinstance(example, str) and datetime.fromisoformat(example).tzinfo is not None
    except ValueError:
        return False


def _describe_parameter(parameter: Json) -> None:
    """Describe a parameter by its own words, else by the words for its name."""
    name, schema = parameter.get("name", ""), parameter.get("schema", {})
    text, *shared = _words()["parameters"].get(name) or _word("", name) or [""]
    if found := schema.get("description") or text:
        parameter.setdefault("description", found)
    for example in schema.get("examples", shared)[:1]:
        if _example_fits(schema, example):
            parameter.setdefault("example", example)


class _Examples:
    """Puts the example of a whole out of those of its fields."""

    def __init__(self, schemas: Json) -> None:
        self._schemas = schemas

    def body(self, schema: Json) -> Any:
        """Return a request: one that makes sense, or just what is required."""
        shape = self._resolve(schema)
        given = _words()["bodies"].get(shape.get("title", ""))
        if given is not None:
            return given
        required = shape.get("required", ())
        return {name: self.example_of(shape["properties"][name]) for name in required}

    def example_of(self, schema: Json) -> Any:
        """Return an example of anything."""
        if "examples" in schema:
            return schema["examples"][0]
        schema = self._resolve(schema)
        match schema:
            case {"enum": [first, *_]} | {"const": first}:
                return first
            case {"anyOf": branches}:
                return self.example_of(
                    next(each for each in branches if each.get("type") != "null")
                )
            case {"properties": properties}:
                return {name: self.example_of(each) for name, each in properties.items()}
            case {"type": "array", "items": items}:
                return [self.body(items) if self._is_request(items) else self.example_of(items)]
            case _:
                return _PLAIN.get(schema.get("type", ""))

    def _is_request(self, schema: Json) -> bool:
        return schema.get("additionalProperties") is False

    def _resolve(self, schema: Json) -> Json:
        if "$ref" not in schema:
            return schema
        found: Json = self._schemas[schema["$ref"].removeprefix(_REF)]
        return found


_PLAIN: Final = {"object": {}, "array": [], "string": "", "boolean": False}


def _exemplify(operation: Json, examples: _Examples) -> None:
    if "requestBody" in operation:
        content = operation["requestBody"]["content"][_JSON]
        content["example"] = examples.body(content["schema"])
    for status, answer in operation["responses"].items():
        if status < "300" and _JSON in answer.get("content", {}):
            content = answer["content"][_JSON]
            content["example"] = examples.example_of(content["schema"])
