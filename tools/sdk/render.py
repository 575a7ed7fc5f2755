"""The source of the client's modules."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from postdate.words.error import EXPLANATIONS, Code
from sdk.operations import Operation
from sdk.shapes import Field, Model, Shapes

WRITTEN: Final = "Written by `make docs` from the endpoints."
SHARED: Final = "shared"
KEY: Final = "idempotency_key"
WIDTH: Final = 98
_BREAK: Final = re.compile(r"[.;:,] ")
EXTENDED: Final = frozenset(
    {"accounts", "destinations", "events", "jobs", "lanes", "payments", "schedules"}
)
"""Groups to which `extended.py` adds calls that are more than one request."""

_MODEL_IMPORTS: Final = """from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, Required, TypeAlias, TypedDict
from uuid import UUID

from msgspec import Struct, field

from postdate.words import error, problem
from postdate.words.open_enum import OpenEnum
"""
_GROUP_IMPORTS: Final = """from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call, pages
"""
_EMPTY_BODY: Final = '# mypy: disable-error-code="empty-body"\n'
"""A call is its signature: `call` and `pages` make the method."""


def homes(found: Sequence[Operation], shapes: Shapes) -> dict[str, str]:
    """Say in which module each model stands: its group's, or the one that several share."""
    users: dict[str, set[str]] = {}

    def use(name: str, group: str) -> None:
        if group in users.setdefault(name, set()):
            return
        users[name].add(group)
        for other in shapes.models[name].needs:
            use(other, group)

    for each in found:
        for name in sorted(each.needs):
            use(name, each.group)
    return {name: min(groups) if len(groups) == 1 else SHARED for name, groups in users.items()}


def models(home: str, where: Mapping[str, str], shapes: Shapes) -> str:
    """Write a module of models, each after those that it needs."""
    mine = [name for name in shapes.models if where.get(name) == home]
    outside = sorted({
        other
        for name in mine
        for other in shapes.models[name].needs
        if where[other] != home
    })  # fmt: skip
    shared = [each for name in outside for each in _exported(shapes.models[name])]
    parts = [f'"""Models of {home.replace("_", " ")}. {WRITTEN}"""\n', _MODEL_IMPORTS]
    if shared:
        parts.append(f"from postdate.client.models.{SHARED} import {', '.join(shared)}\n")
    parts += [_model(shapes.models[name]) for name in _ordered(mine, shapes)]
    return "\n".join(parts)


_LOAD_MODEL: Final = """
if not TYPE_CHECKING:  # A type checker reads the modules.

    def __getattr__(name: str) -> object:
        \"\"\"Load the module of a model when the model is first asked for.\"\"\"
        if name not in HOMES:
            raise AttributeError(f"there is no model {name}", name=name)
        return getattr(import_module(f"postdate.client.models.{HOMES[name]}"), name)
"""


def exports(where: Mapping[str, str], shapes: Shapes) -> str:
    """Write the module that has every model under one name; each loads its module."""
    lines = [f'"""Every model of the API. {WRITTEN}"""\n', "from importlib import import_module"]
    lines += ["from typing import TYPE_CHECKING, Final", "", "if TYPE_CHECKING:"]
    homes = sorted(set(where.values()))
    lines += [f"    from postdate.client.models.{home} import *" for home in homes]
    found = {one: where[name] for name in where for one in _exported(shapes.models[name])}
    lines += ["", "HOMES: Final = {"]
    lines += [f'    "{name}": "{found[name]}",' for name in sorted(found)]
    return "\n".join([*lines, "}", '"""The module of each model."""', _LOAD_MODEL])


def _exported(model: Model) -> list[str]:
    return [model.name, f"{model.name}Name"] if model.asked else [model.name]


def _ordered(wanted: Sequence[str], shapes: Shapes) -> list[str]:
    done: list[str] = []

    def put(name: str) -> None:
        if name in done or name not in wanted:
            return
        for other in sorted(shapes.models[name].needs):
            put(other)
        done.append(name)

    for name in wanted:
        put(name)
    return done


def _model(model: Model) -> str:
    match model.sort:
        case "taken":
            return f"{model.name}: TypeAlias = {model.source}\n"
        case "enum":
            return _enum(model)
        case "input":
            return _input(model)
        case _:
            return _struct(model)


def _enum(model: Model) -> str:
    lines = [f"class {model.name}(OpenEnum):", _doc(model.doc), ""]
    lines += [f'    {_member(value)} = "{value}"' for value in model.values]
    if model.asked:
        listed = ", ".join(f'"{value}"' for value in model.values)
        lines += ["", f"{model.name}Name: TypeAlias = {model.name} | Literal[{listed}]"]
    return "\n".join([*lines, ""])


def _member(value: str) -> str:
    return value.upper().replace(":", "_").replace("-", "_").replace(".", "_")


def _input(model: Model) -> str:
    lines = [f"class {model.name}(TypedDict, total=False):", _described(model), ""]
    if model.tag:
        lines.append(f'    type: Required[Literal["{model.tag}"]]')
    for each in model.fields:
        text = f"Required[{each.type}]" if each.required else each.type
        lines.append(f"    {each.wire}: {text}")
    return "\n".join([*lines, ""])


def _described(model: Model) -> str:
    """Write the docstring of an input with the text of each field: a program can read it there."""
    fields = [f"`{each.wire}`: {each.doc}" for each in model.fields if each.doc]
    if not fields:
        return _doc(model.doc)
    head = _doc(model.doc).removesuffix('"""').rstrip()
    lines = [line for text in fields for line in _wrapped(text, 4)]
    return "\n".join([head, "", *lines, '    """'])


def _struct(model: Model) -> str:
    options = [model.base, "frozen=True", "kw_only=True"]
    if model.tag:
        options += ['tag_field="type"', f'tag="{model.tag}"']
    renamed = {each.name: each.wire for each in model.fields if each.name != each.wire}
    if renamed:
        options.append(f"rename={renamed!r}")
    lines = [f"class {model.name}({', '.join(options)}):", _doc(model.doc), ""]
    for each in model.fields:
        end = f" = {each.default}" if each.default else ""
        lines += [f"    {each.name}: {each.type}{end}", *_field_doc(each)]
    return "\n".join([*lines, ""])


def _field_doc(each: Field) -> list[str]:
    if not each.doc:
        return []
    lines = textwrap.wrap(each.doc, WIDTH - 10)
    return textwrap.indent('"""' + "\n".join(lines) + '"""', " " * 4).splitlines()


def _doc(text: str) -> str:
    """Write the docstring of a class: one line, and a paragraph with what does not fit there."""
    if len(text) + 10 <= WIDTH:
        return f'    """{text}"""'
    first = _BREAK.split(text, maxsplit=1)
    if len(first) == 1 or len(first[0]) + 8 > WIDTH:
        raise ValueError(f"say it in a shorter first sentence: {text}")
    rest = first[1][0].upper() + first[1][1:]
    return "\n".join([f'    """{first[0]}.', "", *_wrapped(rest, 4), '    """'])


def group_module(
    group: str, found: Sequence[Operation], where: Mapping[str, str], shapes: Shapes
) -> str:
    """Write the class whose methods are the operations of a group."""
    used = {name for each in found for name in each.needs}
    imported = sorted({one for name in used for one in _exported(shapes.models[name])})
    words = group.replace("_", " ")
    lines = [f'"""Calls about {words}. {WRITTEN}"""\n', _EMPTY_BODY, _GROUP_IMPORTS]
    lines += [*_imports(imported, where), "", "", f"class {class_name(group)}(Group[K]):"]
    lines += [f'    """What the API offers about {words}."""', ""]
    for each in found:
        lines.append(_method(each, f"{each.name}_page" if each.items else each.name))
        if each.items:
            lines.append(_listing(each))
    return "\n".join(lines)


def class_name(group: str) -> str:
    """Name the class of a group."""
    return "".join(word.capitalize() for word in group.split("_"))


def _imports(wanted: Iterable[str], where: Mapping[str, str]) -> list[str]:
    by_home: dict[str, list[str]] = {}
    for name in wanted:
        home = where.get(name) or where[name.removesuffix("Name")]
        by_home.setdefault(home, []).append(name)
    return [
        f"from postdate.client.models.{home} import {', '.join(found)}"
        for home, found in sorted(by_home.items())
    ]


def _method(each: Operation, name: str) -> str:
    arguments = _arguments(each, [*each.query, *each.body])
    if each.keyed or each.batch:
        arguments.append(f"{KEY}: str | None = None")
    head = f"    def {name}({', '.join(['self', *arguments])}) -> {each.returns}:"
    words = _docstring(each, f"{each.endpoint.summary}.", [*each.path, *each.query, *each.body])
    return "\n".join([_decorator(each), head, words, ""])


def _decorator(each: Operation) -> str:
    path = each.endpoint.path.replace(":uuid}", "}")
    options = [f'"{each.endpoint.handler.__name__}"', f'"{each.endpoint.method}"', f'"{path}"']
    if each.batch:
        options.append(f'batch="{each.batch}"')
    if not each.repeatable:
        options.append("repeatable=False")
    if each.endpoint.scope == "internal":
        options.append("internal=True")
    if each.columns:
        options.append(f"columns={each.columns!r}")
    return f"    @call({', '.join(options)})"


def _listing(each: Operation) -> str:
    left_out = {"limit", "cursor", "wait_seconds"}
    fields = [field for field in each.query if field.wire not in left_out]
    arguments = [*_arguments(each, fields), *(["*"] if not fields else []), "page_size: int = 100"]
    lists = ", ".join(f'"{name}"' for name in each.items)
    head = f"    def {each.name}({', '.join(['self', *arguments])}) -> Iterator[{each.item_type}]:"
    words = _docstring(
        each, f"{each.endpoint.summary}, page by page until the end.", [*each.path, *fields]
    )
    return "\n".join([f"    @pages({each.name}_page, {lists})", head, words, ""])


def _arguments(each: Operation, fields: Sequence[Field]) -> list[str]:
    positional = [f"{field.name}: {field.type}" for field in each.path]
    needed = [f"{field.name}: {field.type}" for field in fields if field.required]
    free = [f"{f.name}: {f.type} = {f.default}" for f in fields if not f.required]
    keyed = each.keyed or each.batch
    star = ["*"] if needed or free or keyed else []
    return [*positional, *star, *needed, *free]


def _docstring(each: Operation, summary: str, fields: Sequence[Field]) -> str:
    words = each.endpoint.description
    described = [f"`{field.name}`: {field.doc}" for field in fields if field.doc]
    if not words and not described:
        return f'        """{summary}"""'
    lines = [line for text in (words, *described) if text for line in _wrapped(text)]
    return "\n".join([f'        """{summary}', "", *lines, '        """'])


def _wrapped(text: str, indent: int = 8) -> list[str]:
    space = " " * indent
    return textwrap.wrap(text, WIDTH, initial_indent=space, subsequent_indent=space)


_LOAD_GROUP: Final = """
    if not TYPE_CHECKING:  # A type checker holds to the annotations.

        def __getattr__(self, name: str) -> object:
            \"\"\"Load a group: its annotation names the class.\"\"\"
            kind = Groups.__annotations__.get(name, "").partition("[")[0]
            if not kind:
                raise AttributeError(f"a client has no {name}", name=name, obj=self)
            home = "extended" if name in EXTENDED else f"calls.{name}"
            found = getattr(import_module(f"postdate.client.{home}"), kind)(self)
            setattr(self, name, found)
            return found
"""


def groups(found: Sequence[str]) -> str:
    """Write what a client has: each group, loaded when it is first asked for."""
    lines = [f'"""The groups of calls of a client. {WRITTEN}"""\n']
    lines += ["from importlib import import_module"]
    lines += ["from typing import TYPE_CHECKING, Final, Generic", ""]
    lines += ["from postdate.client.call import Caller, K", "", "if TYPE_CHECKING:"]
    lines += [f"    from {_module(group)} import {class_name(group)}" for group in found]
    listed = ", ".join(f'"{group}"' for group in sorted(EXTENDED))
    lines += ["", f"EXTENDED: Final = frozenset({{{listed}}})"]
    lines += ['"""Groups to which `extended.py` adds calls that are more than one request."""']
    lines += ["", "", "class Groups(Caller, Generic[K]):"]
    lines += ['    """Every call of the API, by group; each is loaded when first asked for."""', ""]
    for group in found:
        lines += [f'    {group}: "{class_name(group)}[K]"']
        lines += [f'    """Calls about {group.replace("_", " ")}."""']
    return "\n".join(lines) + "\n" + _LOAD_GROUP


def _module(group: str) -> str:
    return f"postdate.client.{'extended' if group in EXTENDED else f'calls.{group}'}"


def problems() -> str:
    """Write one class of errors for each stable code."""
    lines = [f'"""Refusals, one class for each stable code. {WRITTEN}"""\n']
    lines += ["from typing import Final", "", "from postdate.client.errors import ProblemError"]
    lines += ["from postdate.words.error import Code"]
    for code in Code:
        lines += ["", "", f"class {problem_name(code)}(ProblemError, code=Code.{code.name}):"]
        lines += [f'    """{EXPLANATIONS[code].title}."""']
    by_code = "{each.own_code: each for each in ProblemError.__subclasses__()}"
    lines += ["", "", f"BY_CODE: Final = {by_code}", ""]
    return "\n".join(lines)


def problem_name(code: Code) -> str:
    """Name the class of a code."""
    return "".join(word.capitalize() for word in code.value.split("_")) + "Error"
