"""Find all that is wrong with a body, not only the first of it, in bounded time."""

import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from functools import cache
from itertools import islice
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from postdate.words.error import Code
from postdate.words.problem import FieldProblem

MAX_PROBLEMS: Final = 20
MAX_BYTES: Final = 64 * 1024
"""Of larger bodies only the first problem is named: the rest would cost another reading."""

MAX_SUGGESTIONS: Final = 5
MAX_ALLOWED: Final = 40
MAX_NAME_CHARS: Final = 64
LIKENESS: Final = 0.65
"""From where on two words count as alike: `ulr` and `url` do, `payment` and `amount` do not."""


@dataclass(slots=True)
class ExplanationBudget:
    """What may still be spent on explaining one request, all items of a batch together."""

    size: int = MAX_BYTES
    problems: int = MAX_PROBLEMS
    suggestions: int = MAX_SUGGESTIONS

    def admits(self, raw: bytes | memoryview | msgspec.Raw) -> bool:
        """Take what another reading of these bytes costs, if there is that much left."""
        size = len(memoryview(raw))
        if size > self.size or not self.problems:
            return False
        self.size -= size
        return True


def find_problems(
    value: Any, shape: Any, budget: ExplanationBudget | None = None, *, strict: bool = True
) -> list[FieldProblem]:
    """List what keeps a value from being of a shape, in the order of the shape's fields."""
    search = _Search(budget or ExplanationBudget(), strict=strict)
    search.look(value, shape, "")
    return search.found


@dataclass(slots=True)
class _Search:
    """A walk through a value beside its shape, until the budget is spent."""

    budget: ExplanationBudget
    strict: bool
    found: list[FieldProblem] = field(default_factory=list)

    def look(self, value: Any, shape: Any, path: str) -> None:
        """Compare one value with what stands at its place."""
        if not self.budget.problems:
            return
        chosen, before = _choose(value, _bare(shape)), len(self.found)
        if chosen is msgspec.Raw:
            return
        if _is_struct(chosen) and isinstance(value, dict):
            self._look_into(value, chosen, path)
            return
        if get_origin(chosen) is list and isinstance(value, list):
            for number, item in enumerate(value):
                self.look(item, get_args(chosen)[0], f"{path}[{number}]")
        elif isinstance(value, dict) and (tags := _tags(chosen)):
            self._add_wrong_tag(value, tags, path)
        if len(self.found) == before:
            self._try(value, shape, path)

    def _look_into(self, value: dict[str, Any], shape: Any, path: str) -> None:
        fields, config = _fields(shape), shape.__struct_config__
        known = {each.encode_name for each in fields}
        if config.forbid_unknown_fields:
            strange = (name for name in value if name not in known and name != config.tag_field)
            for name in islice(strange, self.budget.problems):
                self._add_unknown(name, known, path)
        for each in fields:
            at = field_path(path, each.encode_name)
            if each.encode_name in value:
                self.look(value[each.encode_name], each.type, at)
            elif each.required:
                self._add(at, Code.INVALID_FIELD, f"`{at}` is required.")

    def _add_unknown(self, name: str, known: set[str], path: str) -> None:
        at, nearest = field_path(path, name), self._nearest(name, known)
        hint = f" Did you mean `{nearest}`?" if nearest else ""
        self._add(at, Code.UNKNOWN_FIELD, f"`{at}` is not known.{hint}", nearest=nearest)

    def _add_wrong_tag(self, value: dict[str, Any], tags: dict[str, str], path: str) -> None:
        """Return which kinds there are where none is given, or one that there is not."""
        (name,) = set(tags.values())
        given, at = value.get(name), field_path(path, name)
        if isinstance(given, str):
            self._add_not_allowed(given, list(tags), at)
        else:
            detail = f"`{at}` is one of {', '.join(tags)}."
            self._add(at, Code.INVALID_FIELD, detail, allowed=list(tags))

    def _try(self, value: Any, shape: Any, path: str) -> None:
        """Let msgspec judge a value that has no parts of its own to name.

        As JSON, which is what was sent: a `Raw` takes any JSON, but no value that was decoded.
        """
        try:
            msgspec.json.decode(msgspec.json.encode(value), type=shape, strict=self.strict)
        except msgspec.ValidationError as error:
            allowed = list(_allowed(shape)) if isinstance(value, str) else []
            if allowed:
                self._add_not_allowed(value, allowed, path)
            else:
                reason = str(error).partition(" - at `")[0]
                detail = _rule(shape) if "regex" in reason else None
                self._add(path, Code.INVALID_FIELD, detail or f"{_at(path)}{reason}.")

    def _add_not_allowed(self, value: str, allowed: list[str], path: str) -> None:
        nearest = self._nearest(value, allowed)
        shown = f"`{value[:MAX_NAME_CHARS]}`"
        detail = f"{_at(path)}{shown} is not one of {', '.join(allowed[:MAX_ALLOWED])}."
        hint = f" Did you mean `{nearest}`?" if nearest else ""
        self._add(
            path,
            Code.INVALID_FIELD,
            detail + hint,
            allowed=allowed[:MAX_ALLOWED],
            nearest=nearest,
        )

    def _nearest(self, name: str, known: "set[str] | list[str]") -> str | None:
        if len(name) > MAX_NAME_CHARS or not self.budget.suggestions:
            return None
        self.budget.suggestions -= 1
        return next(iter(get_close_matches(name, sorted(known), 1, LIKENESS)), None)

    def _add(self, at: str, code: Code, detail: str, **more: Any) -> None:
        if self.budget.problems:
            self.budget.problems -= 1
            self.found.append(FieldProblem(field=at, code=code, detail=detail, **more))


FIELD_CHARS: Final = 200


def field_path(path: str, name: str) -> str:
    """Return the name of a field: its path in the body."""
    return (f"{path}.{name}" if path else name)[:FIELD_CHARS]


def _at(path: str) -> str:
    return f"`{path}`: " if path else ""


@cache
def _fields(shape: Any) -> tuple[FieldInfo, ...]:
    return msgspec.structs.fields(shape)


def _bare(shape: Any) -> Any:
    """Take off what only describes or bounds a type."""
    while get_origin(shape) is Annotated:
        shape = get_args(shape)[0]
    return shape


def _rule(shape: Any) -> str | None:
    """Return the sentence that a type has for what its pattern refuses."""
    found = (each.extra or {} for each in get_args(shape)[1:] if isinstance(each, msgspec.Meta))
    return next((extra["rule"] for extra in found if "rule" in extra), None)


def _is_struct(shape: Any) -> bool:
    return isinstance(shape, type) and issubclass(shape, msgspec.Struct)


def _choose(value: Any, shape: Any) -> Any:
    """Find the branch of a union that is meant; the union itself when that cannot be said."""
    if get_origin(shape) not in {Union, types.UnionType}:
        return shape
    branches = list(_branches(shape))
    if isinstance(value, dict):
        meant = [each for each in branches if _is_struct(each) and _is_tagged(value, each)]
    else:
        meant = [each for each in branches if not _is_struct(each)]
    return meant[0] if len(meant) == 1 else shape


def _branches(shape: Any) -> Iterator[Any]:
    """List what a value of a union may be, where it is given; one union may stand in another."""
    for each in map(_bare, get_args(shape)):
        if get_origin(each) in {Union, types.UnionType}:
            yield from _branches(each)
        elif each not in {type(None), msgspec.UnsetType}:
            yield each


def _is_tagged(value: dict[str, Any], shape: Any) -> bool:
    config = shape.__struct_config__
    return config.tag is None or value.get(config.tag_field) == config.tag


def _tags(shape: Any) -> dict[str, str]:
    """List the tags of a union of structs, each with the field it stands in."""
    if get_origin(shape) not in {Union, types.UnionType}:
        return {}
    configs = [each.__struct_config__ for each in map(_bare, get_args(shape)) if _is_struct(each)]
    return {config.tag: config.tag_field for config in configs if config.tag is not None}


def _allowed(shape: Any) -> Iterator[str]:
    """List the words that a type takes; none for one that takes others too."""
    shape = _bare(shape)
    if get_origin(shape) in {Union, types.UnionType}:
        for branch in get_args(shape):
            yield from _allowed(branch)
    elif get_origin(shape) is Literal:
        # In the order of the schema, which has them sorted; SQL names them by it.
        yield from sorted(map(str, get_args(shape)))
    elif isinstance(shape, type) and issubclass(shape, Enum):
        yield from (str(member.value) for member in shape)
