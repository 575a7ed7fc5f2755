"""What a form or a button does, as a command, as a call of the API and in Python."""

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from postdate.api.endpoints import ENDPOINTS
from postdate.http.endpoint import AnyEndpoint

ENDPOINT_BY_NAME: Final = {endpoint.handler.__name__: endpoint for endpoint in ENDPOINTS}
NOT_TYPED: Final = "…"
"""Stands for what must be given and was not typed yet."""
_OPTION: Final = re.compile(r"\[([^\[\]]*)\]")
_NAME: Final = re.compile(r"\{(\w+)\}")


class Typed(dict[str, Any]):
    """What was typed, as values of JSON; `[]` gives an ellipsis where nothing was."""

    def __missing__(self, name: str) -> str:
        return NOT_TYPED


@dataclass(slots=True, frozen=True, kw_only=True)
class ShownRequest:
    """One request of the API that a page shows; `command` is its own command, if it has one."""

    operation: str
    method_name: str
    path: Mapping[str, Any]
    body: Mapping[str, Any]
    command: str = ""

    @property
    def endpoint(self) -> AnyEndpoint:
        """Return the operation that is called."""
        return ENDPOINT_BY_NAME[self.operation]

    def as_command(self) -> str:
        """Return the line for a shell where the CLI is installed."""
        if self.command:
            return f"postdate {self.command}"
        paths = "".join(f" --path {_quoted(f'{name}={part}')}" for name, part in self.path.items())
        return f"postdate api {self.operation}{paths}{f' --body {self._sent}' if self.body else ''}"

    def as_curl(self) -> str:
        """Return the line for any shell."""
        where = self.endpoint.template
        for name, part in self.path.items():
            where = where.replace(f"{{{name}}}", quote(str(part), safe=""))
        key = ' -H "Idempotency-Key: $(uuidgen)"' if self.endpoint.idempotency else ""
        data = f' \\\n  -H "Content-Type: application/json" -d {self._sent}' if self.body else ""
        method = self.endpoint.method
        return f'curl -s -X {method} "$URL{where}" -H "Authorization: Bearer $KEY"{key}{data}'

    def as_python(self) -> str:
        """Return the call of the Python client."""
        parts = [repr(str(part)) for part in self.path.values()]
        parts += [f"{_keyword(name)}={value!r}" for name, value in self.body.items()]
        return f"Client().{self.method_name}({', '.join(parts)})"

    @property
    def _sent(self) -> str:
        written = json.dumps(self.body, ensure_ascii=False)
        return shlex.quote(written if written.isprintable() else json.dumps(self.body))


def shown_lines(requests: Sequence[ShownRequest]) -> list[str]:
    """Return the requests as commands, as `curl` and as Python, each to be copied as a whole."""
    return [
        "\n".join(one.as_command() for one in requests),
        "\n".join(one.as_curl() for one in requests),
        "\n".join(["from postdate.client import Client", *(one.as_python() for one in requests)]),
    ]


FILTER_OPTIONS: Final = (
    "[ --lane {lane}][ --schedule-id {schedule}]"
    "[ --due-after {due_after}][ --due-before {due_before}]"
)
"""The options of a command that finds jobs by the fields of a form."""


def filter_members(typed: Typed, *names: str) -> dict[str, Any]:
    """Return the filter of a body: what was left empty does not narrow it."""
    known = {"schedule": "schedule_id"}
    return {known.get(name, name): typed[name] for name in names if name in typed}


def _no_body(_: Typed) -> Mapping[str, Any]:
    return {}


@dataclass(slots=True, frozen=True, kw_only=True)
class EquivalentCommand:
    """The operation of the API that does what a button does, and how what was typed fills it in.

    Names in braces in `command` stand for parts of the path and for fields; a part in square
    brackets is left out while its field is empty. Without a command of its own, `postdate api`
    calls the operation.
    """

    operation: str
    method_name: str
    """The method of the Python client, such as `jobs.cancel`."""
    command: str = ""
    body: Callable[[Typed], Mapping[str, Any]] = _no_body

    def filled(self, path: Mapping[str, str], typed: Mapping[str, Any]) -> ShownRequest:
        """Return the request for what was typed."""
        template = ENDPOINT_BY_NAME[self.operation].template
        known = Typed({**typed, **path})
        return ShownRequest(
            operation=self.operation,
            method_name=self.method_name,
            path={name: path[name] for name in _NAME.findall(template)},
            body=self.body(known),
            command=_command(self.command, known),
        )

    def filled_for(self, one: str, typed: Mapping[str, Any]) -> ShownRequest:
        """Return the request for one of several that were selected."""
        [name] = _NAME.findall(ENDPOINT_BY_NAME[self.operation].template)
        return self.filled({name: one}, typed)


def _command(template: str, known: Mapping[str, Any]) -> str:
    wanted = _OPTION.sub(
        lambda found: found[1] if set(_NAME.findall(found[1])) <= known.keys() else "", template
    )
    quoted = Typed({name: _quoted(str(value)) for name, value in known.items()})
    return wanted.format_map(quoted)


def _quoted(text: str) -> str:
    """Quote a word for a shell.

    A terminal obeys control characters that are pasted, also between quotes: one of them empties
    the line before it, and what follows would be another command. They are written as escapes.
    """
    if text.isprintable():
        return shlex.quote(text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if character.isascii() else f"\\U{code:08x}"


def _keyword(name: str) -> str:
    return "from_" if name == "from" else name
