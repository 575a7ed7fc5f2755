"""A request of the API as people send it: as a command, as `curl`, and in Python."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from urllib.parse import quote

from postdate.http.endpoint import AnyEndpoint
from postdate.words.operation_name import client_method

NOT_TYPED: Final = "…"
"""Stands for what must be given and was not typed yet."""


@dataclass(slots=True, frozen=True)
class ShownRequest:
    """One request that a page shows: the operation, the parts of its path in order, its body."""

    endpoint: AnyEndpoint
    path: Mapping[str, str]
    body: Mapping[str, Any]

    def as_command(self) -> str:
        """Return the line for a shell where the CLI is installed."""
        paths = "".join(f" --path {_quoted(f'{name}={part}')}" for name, part in self.path.items())
        sent = f" --body {self._sent}" if self.body else ""
        return f"postdate api {self.endpoint.handler.__name__}{paths}{sent}"

    def as_curl(self) -> str:
        """Return the line for any shell."""
        where = self.endpoint.template
        for name, part in self.path.items():
            where = where.replace(f"{{{name}}}", quote(part, safe=""))
        key = ' -H "Idempotency-Key: $(uuidgen)"' if self.endpoint.idempotency else ""
        data = f' \\\n  -H "Content-Type: application/json" -d {self._sent}' if self.body else ""
        method = self.endpoint.method
        return f'curl -s -X {method} "$URL{where}" -H "Authorization: Bearer $KEY"{key}{data}'

    def as_python(self) -> str:
        """Return the call of the Python client."""
        parts = [repr(part) for part in self.path.values()]
        parts += [f"{_keyword(name)}={value!r}" for name, value in self.body.items()]
        return f"Client().{'.'.join(method_of(self.endpoint))}({', '.join(parts)})"

    @property
    def _sent(self) -> str:
        written = json.dumps(self.body, ensure_ascii=False)
        return shlex.quote(written if written.isprintable() else json.dumps(self.body))


@cache
def method_of(endpoint: AnyEndpoint) -> tuple[str, str]:
    """Return the group of the client in which an operation is, and the name of its method."""
    return client_method(endpoint.handler.__name__, endpoint.tag, endpoint.path)


@cache
def path_names(endpoint: AnyEndpoint) -> tuple[str, ...]:
    """Return what the path of an operation names, in its order."""
    return tuple(re.findall(r"\{(\w+)\}", endpoint.template))


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
