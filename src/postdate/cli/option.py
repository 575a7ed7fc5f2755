"""A field of an operation as an option of a command: the type says what words it takes."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from inspect import Parameter, cleandoc
from types import GenericAlias, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)
from uuid import UUID

import cyclopts
import msgspec
from msgspec import UnsetType

from postdate.cli import number
from postdate.cli.completion import completer, listed_as
from postdate.cli.output import UsageError
from postdate.client.operation import Operation
from postdate.core.operation_name import option_name

NOTHING: Final = "none"
"""The word that takes a value away."""
SCALARS: Final = (int, float, bool, str)
ALSO: Final = {
    "note": "--reason",
    "from_account_id": "--from-account",
    "to_account_id": "--to-account",
}
"""Fields whose option has a second, shorter or more usual name."""
TEXTS: Final = {"idempotency_key": "Makes repeating the command safe; a new one if absent."}
"""What the API's document does not say, or says for requests only."""
SCHEDULE: Final = "schedule_id"
"""The field that takes the name of a schedule, too."""
PREFIXED: Final = frozenset({"misfire", "dst", "insufficient_funds"})
"""Objects in a body whose members are named after the object as well: `--misfire-policy`."""

SHOWN: Final = 40
"""Characters of a word that a refusal repeats."""

_TEXT: Final = re.compile(r"^`(\w+)`: (.*?)(?=^`\w+`: |\Z)", re.MULTILINE | re.DOTALL)
ReadOption: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, kw_only=True)
class OperationField:
    """A field as an operation or an object in a body declares it."""

    name: str
    kind: Any
    text: str
    required: bool = False
    nullable: bool = False
    in_path: bool = False
    listed_as: str = ""
    """What lists its values, where its own name does not say so: `name` is of a destination."""

    @property
    def wire(self) -> str:
        """Return its name in the API."""
        return self.name.removesuffix("_")


class NotJsonError(UsageError):
    """A word that should be JSON is none."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """An option: the parameter of the command, and where in the request its value goes."""

    parameter: Parameter
    path: tuple[str, ...]
    read: ReadOption

    @property
    def name(self) -> str:
        """Return the name of the parameter."""
        return self.parameter.name

    def value_of(self, word: Any) -> Any:
        """Read what the command line gives for the option; a refusal names the option."""
        try:
            return self.read(word)
        except NotJsonError as error:
            raise UsageError(f"{option_name(self.name)}: {error}") from error


def fields_of(operation: Operation) -> Iterator[OperationField]:
    """Read the fields of an operation, parts of its path included, from its signature."""
    texts = field_texts(operation.declared.__doc__)
    for name, each in operation.signature.parameters.items():
        yield OperationField(
            name=name,
            kind=each.annotation,
            text=texts.get(name, ""),
            required=each.default is Parameter.empty,
            nullable=name.removesuffix("_") in operation.nulls,
            in_path=f"{{{name}}}" in operation.path,
            listed_as=listed_as(operation.path, name),
        )


def members_of(kind: Any) -> Iterator[OperationField]:
    """Read the fields of an object in a body."""
    texts = field_texts(kind.__doc__)
    for name, each in get_type_hints(kind).items():
        yield OperationField(name=name, kind=each, text=texts.get(name, ""))


def field_texts(doc: str | None) -> dict[str, str]:
    """Find the texts of the fields in a docstring."""
    return {name: " ".join(text.split()) for name, text in _TEXT.findall(cleandoc(doc or ""))}


def summary(doc: str | None) -> str:
    """Return a docstring without the texts of the fields."""
    return _TEXT.sub("", cleandoc(doc or "")).strip()


def object_of(kind: Any) -> Any:
    """Return the one object that a field takes, or None."""
    found = _members(kind)
    return found[0] if len(found) == 1 and is_typeddict(found[0]) else None


def option(
    field: OperationField,
    taken: set[str],
    *,
    positional: bool | None = None,
    below: Sequence[str] = (),
) -> Option:
    """Make the option of a field; `taken` has the options of the command, and gets this one."""
    kind, read, more = _word(field)
    if positional is None:
        positional = field.required and _stands_alone(field, kind)
    if field.name == SCHEDULE:
        read = _schedule_id
    if field.nullable:
        kind, read = _or_nothing(kind, read)
    name = field.name
    if below and (PREFIXED.intersection(below) or option_name(name) in taken):
        name = "_".join([*below, name])
    words = [option_name(name), *(word for word in _more_names(name, kind) if word not in taken)]
    taken.update(words)
    shown = cyclopts.Parameter(
        name=words,
        help=_help(field, read),
        completer=completer(field.listed_as or field.name),
        **more,
    )
    parameter = Parameter(
        name,
        Parameter.POSITIONAL_OR_KEYWORD if positional else Parameter.KEYWORD_ONLY,
        default=Parameter.empty if field.in_path else None,
        annotation=Annotated[kind if field.in_path else kind | None, shown],
    )
    return Option(parameter=parameter, path=(*below, field.wire), read=read)


def _help(field: OperationField, read: ReadOption) -> str:
    text = TEXTS.get(field.name) or field.text or f"{field.wire.replace('_', ' ').capitalize()}."
    is_json = read in {read_json, _json_or_word} and "JSON" not in text
    return f"{text.removesuffix('.')}, as JSON." if is_json else text


def _stands_alone(field: OperationField, kind: Any) -> bool:
    """Tell whether a value says by itself what it is, without the name of its option."""
    return kind is not bool and get_origin(kind) is not list and object_of(field.kind) is None


def _more_names(name: str, kind: Any) -> Iterator[str]:
    if name in ALSO:
        yield ALSO[name]
    if get_origin(kind) is list and name.endswith("s"):
        yield option_name(name[:-1])


def _word(field: OperationField) -> tuple[Any, ReadOption, dict[str, Any]]:
    """Say what words a field takes, how a value is made of them, and how cyclopts is shown so."""
    found = _members(field.kind)
    words = [word for each in found if get_origin(each) is Literal for word in get_args(each)]
    plain = [each for each in found if each in SCALARS]
    if any(is_typeddict(each) or get_origin(each) is Mapping or each is Any for each in found):
        return str, _json_or_word if plain or words else read_json, {}
    if found and get_origin(found[0]) is Sequence:
        item = _item(found[0])
        return (
            (GenericAlias(list, item), _unchanged, {"negative": ()})
            if item
            else (str, read_json, {})
        )
    if len(plain) > 1 and str in plain:
        return str, _json_or_text, {}
    kind: Any = Literal[*words] if words and not plain else plain[0] if plain else str
    return kind, _unchanged, _how(kind, is_duration=timedelta in found)


def _how(kind: Any, *, is_duration: bool) -> dict[str, Any]:
    if is_duration:
        return {"converter": number.convert_seconds}
    return {"allow_leading_hyphen": True} if kind in {int, float} else {}


def _members(kind: Any) -> list[Any]:
    """Take a union apart, without what only Python's callers give and with one text for dates."""
    if get_origin(kind) in {Union, UnionType}:
        found = [each for part in get_args(kind) for each in _members(part)]
        return [each for each in found if each is not NoneType]
    if kind in {UnsetType, UUID} or (isinstance(kind, type) and issubclass(kind, Enum)):
        return []
    if get_origin(kind) is not None or kind in {*SCALARS, timedelta, NoneType, Any}:
        return [kind]
    return [kind] if is_typeddict(kind) else [str]


def _item(kind: Any) -> Any:
    """Return what one item of a list is, if a word can say it."""
    [inner] = get_args(kind)
    found, read, _ = _word(OperationField(name="item", kind=inner, text=""))
    return found if read is _unchanged else None


def _or_nothing(kind: Any, read: ReadOption) -> tuple[Any, ReadOption]:
    def unless_nothing(value: Any) -> Any:
        return None if value == NOTHING else read(value)

    return (kind if kind is str else kind | Literal["none"]), unless_nothing


def _unchanged(value: Any) -> Any:
    return value


def _schedule_id(text: str) -> str:
    # Only a command that names a schedule needs the client for it.
    from postdate.cli.schedule_name import schedule_id_of

    return schedule_id_of(text)


def read_json(text: str) -> Any:
    """Read a JSON value from the command line."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise NotJsonError(f"{text[:SHOWN]!r} is not JSON: {error}") from error


def read_object(text: str | None) -> dict[str, Any]:
    """Read a JSON object from the command line; without one it is empty."""
    found = {} if text is None else read_json(text)
    if not isinstance(found, dict):
        raise UsageError("the body is a JSON object")
    return found


def _json_or_word(text: str) -> Any:
    return read_json(text) if text.startswith("{") else text


def _json_or_text(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
