"""A request of the API as people send it: as a command, as `curl`, and in Python."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import quote

from postdate.core.operation_name import client_method, command_words, option_name
from postdate.http.endpoint import AnyEndpoint

NOT_TYPED: Final = "…"
"""Stands for what must be given and was not typed yet."""


@dataclass(slots=True, frozen=True)
class ShownRequest:
    """One request that a page shows: the operation, the parts of its path in order, its body."""

    endpoint: AnyEndpoint
    path: Mapping[str, str]
    body: Mapping[str, Any]

    def as_command(self) -> str:
        """Return the line for a shell where the CLI is installed.

        Parts of the path stand by themselves, words and numbers of the body are options, and what
        has parts itself is JSON.
        """
        words, rest = [command_of(self.endpoint)], dict(self.body)
        if words[0].startswith("api "):
            words += [f"--path {_quoted(f'{name}={part}')}" for name, part in self.path.items()]
        else:
            plain = {name: rest.pop(name) for name in self.body if _is_word(self.body[name])}
            words += [_argument("", name, part) for name, part in self.path.items()]
            words += [_argument(option_name(name), name, value) for name, value in plain.items()]
        words += [f"--body {_as_json(rest)}"] if rest else []
        return f"postdate {' '.join(words)}"

    def as_curl(self) -> str:
        """Return the line for any shell."""
        where = self.endpoint.template
        for name, part in self.path.items():
            where = where.replace(f"{{{name}}}", quote(part, safe=""))
        key = ' -H "Idempotency-Key: $(uuidgen)"' if self.endpoint.idempotency else ""
        data = (
            f' \\\n  -H "Content-Type: application/json" -d {_as_json(self.body)}'
            if self.body
            else ""
        )
        method = self.endpoint.method
        return f'curl -s -X {method} "$URL{where}" -H "Authorization: Bearer $KEY"{key}{data}'

    def as_python(self) -> str:
        """Return the call of the Python client."""
        parts = [repr(part) for part in self.path.values()]
        parts += [f"{_keyword(name)}={value!r}" for name, value in self.body.items()]
        return f"Client().{'.'.join(method_of(self.endpoint))}({', '.join(parts)})"


@cache
def method_of(endpoint: AnyEndpoint) -> tuple[str, str]:
    """Return the group of the client in which an operation is, and the name of its method."""
    return client_method(endpoint.handler.__name__, endpoint.tag, endpoint.path)


@cache
def command_of(endpoint: AnyEndpoint) -> str:
    """Return the words of the command that carries an operation out."""
    return command_words(endpoint.handler.__name__, *method_of(endpoint))


@cache
def path_names(endpoint: AnyEndpoint) -> tuple[str, ...]:
    """Return what the path of an operation names, in its order."""
    return tuple(re.findall(r"\{(\w+)\}", endpoint.template))


def _is_word(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _argument(option: str, name: str, value: Any) -> str:
    """Write an argument; one that begins with a dash would be taken for another option."""
    text = str(value)
    if text[:1] == "-":
        return f"{option_name(name)}={_quoted(text)}"
    return f"{option} {_quoted(text)}".lstrip()


def _as_json(body: Mapping[str, Any]) -> str:
    written = json.dumps(body, ensure_ascii=False)
    return shlex.quote(written if written.isprintable() else json.dumps(body))


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
