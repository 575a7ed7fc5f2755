"""The source of the client's modules."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from postdate.model.error import EXPLANATIONS, Code
from sdk import names
from sdk.operations import Operation
from sdk.shapes import Field, Model, Shapes

WRITTEN: Final = "Written by `make docs` from the endpoints."
SHARED: Final = "shared"
KEY: Final = "idempotency_key"
WIDTH: Final = 98
_BREAK: Final = re.compile(r"[.;:,] ")
EXTENDED: Final = frozenset({"jobs", "payments", "events"})
"""Groups to which `extended.py` adds calls that are more than one request."""

_MODEL_IMPORTS: Final = """from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal, Required, TypeAlias, TypedDict
from uuid import UUID

from msgspec import Struct, field

from postdate.client.open_enum import OpenEnum
"""
_GROUP_IMPORTS: Final = """from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from msgspec import UNSET, UnsetType
"""


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


def exports(where: Mapping[str, str], shapes: Shapes) -> str:
    """Write the module that has every model under one name."""
    by_home: dict[str, list[str]] = {}
    for name in sorted(where):
        by_home.setdefault(where[name], []).extend(_exported(shapes.models[name]))
    lines = [f'"""Every model of the API. {WRITTEN}"""\n']
    lines += [
        f"from postdate.client.models.{home} import {', '.join(sorted(found))}"
        for home, found in sorted(by_home.items())
    ]
    everything = sorted(name for found in by_home.values() for name in found)
    listed = ", ".join(f'"{name}"' for name in everything)
    return "\n".join(lines) + f"\n\n__all__ = [{listed}]\n"


def _exported(model: Model) -> list[str]:
    return [model.name, f"{model.name}Name"] if model.sort == "enum" else [model.name]


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
        case "enum":
            return _enum(model)
        case "input":
            return _input(model)
        case _:
            return _struct(model)


def _enum(model: Model) -> str:
    lines = [f"class {model.name}(OpenEnum):", _doc(model.doc), ""]
    lines += [f'    {_member(value)} = "{value}"' for value in model.values]
    listed = ", ".join(f'"{value}"' for value in model.values)
    lines += ["", f"{model.name}Name: TypeAlias = {model.name} | Literal[{listed}]", ""]
    return "\n".join(lines)


def _member(value: str) -> str:
    return value.upper().replace(":", "_").replace("-", "_").replace(".", "_")


def _input(model: Model) -> str:
    lines = [f"class {model.name}(TypedDict, total=False):", _doc(model.doc), ""]
    if model.tag:
        lines.append(f'    type: Required[Literal["{model.tag}"]]')
    for each in model.fields:
        text = f"Required[{each.type}]" if each.required else each.type
        lines += [f"    {each.wire}: {text}", *_field_doc(each)]
    return "\n".join([*lines, ""])


def _struct(model: Model) -> str:
    options = ["Struct", "frozen=True", "kw_only=True"]
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


def calls(group: str, found: Sequence[Operation], where: Mapping[str, str]) -> str:
    """Write the module of values that describe the operations of a group."""
    returned = sorted({each.returns for each in found if each.returns != "None"})
    lines = [f'"""Operations of {group.replace("_", " ")}. {WRITTEN}"""\n']
    lines += ["from types import NoneType", "from typing import Final", ""]
    lines += ["from postdate.client.operation import Operation", *_imports(returned, where), ""]
    lines += [_operation(each) for each in found]
    return "\n".join(lines)


def _operation(each: Operation) -> str:
    returns = "NoneType" if each.returns == "None" else each.returns
    path = each.endpoint.path.replace(":uuid}", "}")
    options = [f'"{each.endpoint.handler.__name__}"', f'"{each.endpoint.method}"', f'"{path}"']
    options.append(returns)
    nulls = [field.wire for field in each.body if field.nullable]
    if each.keyed:
        options.append("keyed=True")
    if each.batch:
        options.append(f'batch="{each.batch}"')
    if not each.repeatable:
        options.append("repeatable=False")
    if each.endpoint.scope == "internal":
        options.append("internal=True")
    if nulls:
        options.append("nulls=frozenset({" + ", ".join(f'"{n}"' for n in nulls) + "})")
    return f"{each.constant}: Final = Operation({', '.join(options)})"


def group_module(
    group: str, found: Sequence[Operation], where: Mapping[str, str], shapes: Shapes, *, sync: bool
) -> str:
    """Write the class whose methods are the operations of a group."""
    used = {name for each in found for name in each.needs}
    imported = sorted({one for name in used for one in _exported(shapes.models[name])})
    base = "Group" if sync else "AsyncGroup"
    lines = [f'"""Calls about {group.replace("_", " ")}. {WRITTEN}"""\n', _GROUP_IMPORTS]
    lines += [f"from postdate.client.group import {base}", *_imports(imported, where)]
    lines.append(f"from postdate.client.operations import {group} as operations")
    lines += ["", "", f"class {class_name(group, sync=sync)}({base}):"]
    lines += [f'    """What the API offers about {group.replace("_", " ")}."""', ""]
    for each in found:
        if each.items:
            lines.append(_listing(each, sync=sync))
            lines.append(_method(each, f"{each.name}_page", sync=sync))
        else:
            lines.append(_method(each, each.name, sync=sync))
    lines += [_items(each) for each in found if len(each.items) > 1]
    return "\n".join(lines)


def class_name(group: str, *, sync: bool) -> str:
    """Name the class of a group."""
    title = "".join(word.capitalize() for word in group.split("_"))
    return title if sync else f"Async{title}"


def _imports(wanted: Iterable[str], where: Mapping[str, str]) -> list[str]:
    by_home: dict[str, list[str]] = {}
    for name in wanted:
        home = where.get(name) or where[name.removesuffix("Name")]
        by_home.setdefault(home, []).append(name)
    return [
        f"from postdate.client.models.{home} import {', '.join(found)}"
        for home, found in sorted(by_home.items())
    ]


def _method(each: Operation, name: str, *, sync: bool) -> str:
    arguments = _arguments(each, [*each.query, *each.body])
    if each.keyed or each.batch:
        arguments.append(f"{KEY}: str | None = None")
    word, wait = ("def", "") if sync else ("async def", "await ")
    sent = [f"operations.{each.constant}", *_sent(each)]
    if each.keyed or each.batch:
        sent.append(f"key={KEY}")
    head = f"    {word} {name}({', '.join(['self', *arguments])}) -> {each.returns}:"
    answer = f"{wait}self._send({', '.join(sent)})"
    return "\n".join([
        head, _docstring(each, each.endpoint.summary + "."),
        f"        return {answer}" if each.returns != "None" else f"        {answer}",
        "",
    ])  # fmt: skip


def _listing(each: Operation, *, sync: bool) -> str:
    left_out = {"limit", "cursor", "wait_seconds"}
    fields = [field for field in each.query if field.wire not in left_out]
    arguments = [*_arguments(each, fields), "page_size: int = 100"]
    if not fields:
        arguments = [*(a for a in arguments[:-1]), "*", "page_size: int = 100"]
    iterator = "Iterator" if sync else "AsyncIterator"
    shown = f"lambda page: page.{each.items[0]}" if len(each.items) == 1 else _items_name(each)
    sent = [f"operations.{each.constant}", shown]
    more = [f'"{field.wire}": {field.name}' for field in fields] + ['"limit": page_size']
    sent += [*_path_sent(each), f"query={{{', '.join(more)}}}"]
    head = f"    def {each.name}({', '.join(['self', *arguments])})"
    words = f"{each.endpoint.summary}, page by page until the end."
    return "\n".join([
        f"{head} -> {iterator}[{each.item_type}]:", _docstring(each, words),
        f"        return self._pages({', '.join(sent)})", "",
    ])  # fmt: skip


def _items_name(each: Operation) -> str:
    return f"_{each.endpoint.handler.__name__}_items"


def _items(each: Operation) -> str:
    """Write the function that takes the items out of a page with several lists."""
    items = ", ".join(f"*page.{name}" for name in each.items)
    head = f"def {_items_name(each)}(page: {each.returns}) -> list[{each.item_type}]:"
    return f"\n\n{head}\n    return [{items}]\n"


def _arguments(each: Operation, fields: Sequence[Field]) -> list[str]:
    positional = [f"{field.name}: {field.type}" for field in each.path]
    needed = [f"{field.name}: {field.type}" for field in fields if field.required]
    free = [f"{f.name}: {f.type} = {f.default}" for f in fields if not f.required]
    keyed = each.keyed or each.batch
    star = ["*"] if needed or free or keyed else []
    return [*positional, *star, *needed, *free]


def _docstring(each: Operation, summary: str) -> str:
    words = each.endpoint.description
    described = [f"`{f.name}`: {f.doc}" for f in (*each.query, *each.body) if f.doc]
    if not words and not described:
        return f'        """{summary}"""'
    lines = [line for text in (words, *described) if text for line in _wrapped(text)]
    return "\n".join([f'        """{summary}', "", *lines, '        """'])


def _wrapped(text: str, indent: int = 8) -> list[str]:
    space = " " * indent
    return textwrap.wrap(text, WIDTH, initial_indent=space, subsequent_indent=space)


def _path_sent(each: Operation) -> list[str]:
    if not each.path:
        return []
    return ["path={" + ", ".join(f'"{f.wire}": {f.name}' for f in each.path) + "}"]


def _sent(each: Operation) -> list[str]:
    sent = _path_sent(each)
    for name, fields in (("query", each.query), ("body", each.body)):
        if fields:
            pairs = ", ".join(f'"{field.wire}": {field.name}' for field in fields)
            sent.append(f"{name}={{{pairs}}}")
        elif name == "body" and each.endpoint.body is not None:
            sent.append("body={}")
    return sent


def groups(found: Sequence[str], *, sync: bool) -> str:
    """Write what a client has: each group, loaded when it is first asked for."""
    folder = "sync_groups" if sync else "async_groups"
    base, title = ("Sender", "Groups") if sync else ("AsyncSender", "AsyncGroups")
    lines = [f'"""The groups of calls of a client. {WRITTEN}"""\n']
    lines += ["from functools import cached_property", "from typing import TYPE_CHECKING", ""]
    lines += [f"from postdate.client.group import {base}", "", "if TYPE_CHECKING:"]
    lines += [f"    from {_module(g, folder)} import {class_name(g, sync=sync)}" for g in found]
    lines += ["", "", f"class {title}({base}):", '    """Every call of the API, by group."""', ""]
    for group in found:
        name = class_name(group, sync=sync)
        lines += [
            "    @cached_property",
            f'    def {group}(self) -> "{name}":',
            f'        """Call about {group.replace("_", " ")}."""',
            f"        from {_module(group, folder)} import {name}",
            "",
            f"        return {name}(self)",
            "",
        ]
    return "\n".join(lines)


def _module(group: str, folder: str) -> str:
    return f"postdate.client.{'extended' if group in EXTENDED else f'{folder}.{group}'}"


def problems() -> str:
    """Write one class of errors for each stable code."""
    lines = [f'"""Refusals, one class for each stable code. {WRITTEN}"""\n']
    lines += ["from typing import Final", "", "from postdate.client.errors import ProblemError"]
    for code in Code:
        said = EXPLANATIONS[code]
        lines += ["", "", f"class {problem_name(code)}(ProblemError):"]
        words = f"`{code.value}`, HTTP {said.status}. {said.advice}"
        lines += [f'    """{said.title}.', "", *_wrapped(words, 4), '    """']
    pairs = ", ".join(f'"{code.value}": {problem_name(code)}' for code in Code)
    lines += ["", "", f"BY_CODE: Final[dict[str, type[ProblemError]]] = {{{pairs}}}", ""]
    return "\n".join(lines)


def problem_name(code: Code) -> str:
    """Name the class of a code."""
    return "".join(word.capitalize() for word in code.value.split("_")) + "Error"


def package(folder: str) -> str:
    """Write the head of a package whose modules are loaded one by one."""
    return f'"""{names.PACKAGES[folder]} {WRITTEN}"""\n'
