"""The types of the client in Python's words, from those of the API."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any, Final

import msgspec
from msgspec import inspect

from postdate.job.api import job
from postdate.payment.api import payment as payments
from postdate.payment.spec.payment import KeyedOrder
from postdate.words.error import Code
from postdate.words.problem import FieldProblem, Problem
from sdk import names

PLAIN: Final[dict[type, str]] = {
    inspect.AnyType: "Any",
    inspect.RawType: "Any",
    inspect.NoneType: "None",
    inspect.BoolType: "bool",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.DateTimeType: "datetime",
    inspect.DateType: "date",
}
LISTS: Final = (
    inspect.ListType,
    inspect.VarTupleType,
    inspect.SetType,
    inspect.FrozenSetType,
)
SECONDS: Final = "_seconds"
KEY: Final = "idempotency_key"
ITEMS: Final[dict[type[msgspec.Struct], type[msgspec.Struct]]] = {
    job.JobBatchBody: job.JobBatchItem,
    payments.PaymentBatchBody: KeyedOrder,
}
"""Batches: their items stand in the body as raw JSON, each decoded for itself."""
TAKEN: Final[tuple[type, ...]] = (Code, FieldProblem, Problem)
"""What stands in `model` as the client needs it, and is not written again."""


@dataclass
class Field:
    """A field of a model, or an argument of a method."""

    name: str
    type: str
    wire: str
    required: bool
    default: str = ""
    doc: str = ""
    nullable: bool = False


@dataclass
class Model:
    """A class of the client; `asked` when callers give its values, too.

    `source` is where a class stands that is taken as it is, `base` what it adds its fields to.
    """

    name: str
    sort: str
    doc: str
    fields: list[Field] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    tag: str | None = None
    source: str = ""
    base: str = "Struct"
    asked: bool = False
    needs: set[str] = field(default_factory=set)


class Shapes:
    """Every model found so far, by its name."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}
        self._kinds: dict[str, str] = {}

    def result(self, kind: inspect.Type, owner: str, name: str) -> tuple[str, set[str]]:
        """Say what a value that comes back is."""
        match kind:
            case inspect.Metadata():
                return self.result(kind.type, owner, name)
            case inspect.UUIDType():
                return "str", set()
            case inspect.StructType():
                found = self._taken(kind.cls) or self._result_struct(kind)
                return found, {found}
            case inspect.EnumType():
                title = names.model(kind.cls)
                words = [member.value for member in kind.cls]
                found = self._taken(kind.cls) or self._enum(kind.cls, title, words)
                return found, {found}
            case inspect.LiteralType(values=values) if len(values) == 1:
                return "str", set()
            case inspect.LiteralType():
                title = owner + "".join(word.capitalize() for word in name.split("_"))
                title = names.MODELS.get(title, title)
                found = self._enum(None, title, list(kind.values))
                return found, {found}
            case inspect.UnionType():
                return _joined([self.result(each, owner, name) for each in kind.types])
            case inspect.DictType():
                of, needs = self.result(kind.value_type, owner, name)
                return f"dict[str, {of}]", needs
            case _ if isinstance(kind, LISTS):
                of, needs = self.result(kind.item_type, owner, name)
                return f"list[{of}]", needs
            case _:
                return PLAIN[type(kind)], set()

    def asked(self, kind: inspect.Type, name: str) -> tuple[str, set[str]]:
        """Say what a caller may give."""
        match kind:
            case inspect.Metadata():
                return self.asked(kind.type, name)
            case inspect.UUIDType():
                return "UUID | str", set()
            case inspect.IntType() | inspect.FloatType() if name.endswith(SECONDS):
                return f"{PLAIN[type(kind)]} | timedelta", set()
            case inspect.StructType():
                found = self._input(kind)
                return found, {found}
            case inspect.EnumType():
                title = names.model(kind.cls)
                self._enum(kind.cls, title, [member.value for member in kind.cls])
                self.models[title].asked = True
                return f"{title}Name", {title}
            case inspect.LiteralType():
                return f"Literal[{_values(kind.values)}]", set()
            case inspect.UnionType():
                return _joined([self.asked(each, name) for each in kind.types])
            case inspect.DictType():
                of, needs = self.asked(kind.value_type, "")
                return f"Mapping[str, {of}]", needs
            case _ if isinstance(kind, LISTS):
                of, needs = self.asked(kind.item_type, "")
                return f"Sequence[{of}]", needs
            case _:
                return PLAIN[type(kind)], set()

    def arguments(self, kind: type[msgspec.Struct]) -> tuple[list[Field], set[str]]:
        """Take a body or query apart into arguments; what the API leaves open can be left out."""
        found, needs = [], set()
        for each in struct(kind).fields:
            text, more = self._argument(kind, each)
            needs |= more
            nullable = "None" in text.split(" | ")
            default = "" if each.required else _absent(each)
            if default == "UNSET" and text != "Any":
                text = _union([*_members(text), "UnsetType"])
            found.append(
                Field(
                    name=names.identifier(each.encode_name),
                    type=text,
                    wire=each.encode_name,
                    required=each.required,
                    default=default,
                    doc=_doc(each.type) or field_text(kind.__name__, each.encode_name),
                    nullable=(nullable or text == "Any") and default == "UNSET",
                )
            )
        return found, needs

    def _argument(self, kind: type[msgspec.Struct], each: inspect.Field) -> tuple[str, set[str]]:
        if kind in ITEMS:
            found = self._input(struct(ITEMS[kind]))
            return f"Sequence[{found}]", {found}
        return self.asked(each.type, each.encode_name)

    def _taken(self, kind: type) -> str | None:
        if kind not in TAKEN:
            return None
        title, module = names.model(kind), kind.__module__.rpartition(".")[2]
        made = Model(title, "taken", "", source=f"{module}.{kind.__name__}")
        self.models[title] = made
        if issubclass(kind, msgspec.Struct):
            for each in struct(kind).fields:
                made.needs |= self.result(each.type, title, each.encode_name)[1]
        return title

    def _result_struct(self, kind: inspect.StructType) -> str:
        title = names.model(kind.cls)
        if self._known(title, kind.cls):
            return title
        made = Model(title, "struct", _sentence(kind.cls), tag=_tag(kind))
        self.models[title] = made
        base: type[msgspec.Struct] = kind.cls.__mro__[1]
        inherited = base.__struct_fields__
        if inherited:
            made.base = self._result_struct(struct(base))
            made.needs.add(made.base)
        for each in kind.fields:
            text, needs = self.result(each.type, title, each.encode_name)
            made.needs |= needs
            if each.name in inherited:
                continue
            made.fields.append(
                Field(
                    name=names.identifier(each.encode_name),
                    type=text if each.required else _open(text, each),
                    wire=each.encode_name,
                    required=each.required,
                    default="" if each.required else _stored(each),
                    doc=_doc(each.type),
                )
            )
        return title

    def _input(self, kind: inspect.StructType) -> str:
        title = names.model(kind.cls) + "Params"
        if self._known(title, kind.cls):
            return title
        made = Model(title, "input", _sentence(kind.cls), tag=_tag(kind))
        self.models[title] = made
        for each in kind.fields:
            text, needs = self.asked(each.type, each.encode_name)
            made.needs |= needs
            # The client makes the keys that the caller does not give.
            required = each.required and each.encode_name != KEY
            doc = _doc(each.type) or field_text(kind.cls.__name__, each.encode_name)
            made.fields.append(Field(each.encode_name, text, each.encode_name, required, doc=doc))
        return title

    def _enum(self, kind: type | None, title: str, values: Iterable[Any]) -> str:
        if not self._known(title, kind):
            doc = _sentence(kind) if kind else f"What `{title}` may be."
            made = Model(title, "enum", doc, values=[str(each) for each in values])
            same = self._same_words(made) if kind is None else None
            self.models[title] = same or made
        return title

    def _same_words(self, made: Model) -> Model | None:
        """Find an enumeration of the same words under another name, and take it."""
        for other in self.models.values():
            if (other.sort, other.values) == (made.sort, made.values):
                return Model(made.name, "taken", "", source=other.name, needs={other.name})
        return None

    def _known(self, title: str, kind: type | None) -> bool:
        """Remember whose name it is: two models of one name would hide each other."""
        full = f"{kind.__module__}.{kind.__qualname__}" if kind else title
        if self._kinds.setdefault(title, full) != full:
            raise ValueError(f"{full} and {self._kinds[title]} are both {title}: see sdk/names.py")
        return title in self.models


@cache
def _texts() -> dict[str, list[Any]]:
    text = files("postdate.http").joinpath("fields.toml").read_text()
    found: dict[str, list[Any]] = tomllib.loads(text)["fields"]
    return found


def field_text(owner: str, name: str) -> str:
    """Return what the API's document says of a field that has no text of its own."""
    found = _texts().get(f"{owner}.{name}") or _texts().get(name) or [""]
    return str(found[0])


def struct(kind: type[msgspec.Struct]) -> inspect.StructType:
    """Take a struct apart."""
    found = inspect.type_info(kind)
    if not isinstance(found, inspect.StructType):
        raise TypeError(f"{kind} is no struct")
    return found


def bare(kind: inspect.Type) -> inspect.Type:
    """Take off what only describes a type."""
    return bare(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _joined(parts: list[tuple[str, set[str]]]) -> tuple[str, set[str]]:
    texts = [each for text, _ in parts for each in _members(text)]
    return _union(texts), set().union(*(needs for _, needs in parts))


def _members(text: str) -> list[str]:
    return [text] if "[" in text else text.split(" | ")


def _union(texts: list[str]) -> str:
    """Join types: Any swallows the others, None stands last."""
    found = list(dict.fromkeys(texts))
    if "Any" in found:
        return "Any"
    return " | ".join(sorted(found, key=lambda text: text == "None"))


def _absent(each: inspect.Field) -> str:
    return "None" if each.default is None else "UNSET"


def _open(text: str, each: inspect.Field) -> str:
    absent = each.default is msgspec.NODEFAULT and each.default_factory is msgspec.NODEFAULT
    if absent and text != "Any" and "None" not in text.split(" | "):
        return f"{text} | None"
    return text


def _stored(each: inspect.Field) -> str:
    if each.default_factory is not msgspec.NODEFAULT:
        made: Any = each.default_factory()
        return f"field(default_factory={type(made).__name__})" if not made else repr(made)
    if isinstance(each.default, Enum):
        return f"{names.model(type(each.default))}.{each.default.name}"
    return "None" if each.default is msgspec.NODEFAULT else repr(each.default)


def _values(values: Iterable[Any]) -> str:
    return ", ".join(f'"{each}"' for each in sorted(map(str, values)))


def _tag(kind: inspect.StructType) -> str | None:
    return None if kind.tag is None else str(kind.tag)


def _sentence(kind: type) -> str:
    return " ".join((kind.__doc__ or kind.__name__).partition("\n\n")[0].split())


def _doc(kind: inspect.Type) -> str:
    while isinstance(kind, inspect.Metadata | inspect.UnionType):
        if isinstance(kind, inspect.UnionType):
            found = [each for each in kind.types if isinstance(each, inspect.Metadata)]
            if not found:
                return ""
            kind = found[0]
            continue
        if kind.extra_json_schema and "description" in kind.extra_json_schema:
            return str(kind.extra_json_schema["description"])
        kind = kind.type
    return ""
