"""What a button does, as an API call and as a command."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(slots=True, frozen=True)
class EquivalentCommand:
    """`call` is a method and a path below `/api/v1`; `body` its JSON; `command` one of the CLI.

    Names in braces (in JSON in angle brackets) stand for parts of the page's own path and for
    fields of its form.
    """

    call: str
    body: str = ""
    command: str = ""
    keyed: bool = False
    """Whether the call needs a key by which it counts once."""

    def filled(self, params: Mapping[str, str], values: Mapping[str, str]) -> list[str]:
        """Return the lines to paste into a shell."""
        known = {**values, **params}
        method, _, path = self.call.partition(" ")
        path = path.format_map(_Escaped(known, lambda text: quote(text, safe="")))
        verb = "" if method == "GET" else f" -X {method}"
        curl = f'curl -s{verb} "$URL/api/v1{path}" -H "Authorization: Bearer $KEY"'
        if self.keyed:
            curl += ' -H "Idempotency-Key: $(uuidgen)"'
        if self.body:
            data = shlex.quote(_body(self.body, known))
            curl += f' \\\n  -H "Content-Type: application/json" -d {data}'
        if not self.command:
            return [curl]
        return ["postdate " + self.command.format_map(_Escaped(known, shlex.quote)), curl]


class _Escaped(dict[str, str]):
    """Escaped values; an unknown one is an ellipsis."""

    def __init__(self, known: Mapping[str, str], escape: Callable[[str], str]) -> None:
        super().__init__({name: escape(text) for name, text in known.items() if text})

    def __missing__(self, name: str) -> str:
        return "…"


def _body(template: str, known: Mapping[str, str]) -> str:
    braced = template.replace("{", "{{").replace("}", "}}").replace("<", "{").replace(">", "}")
    return braced.format_map(_Escaped(known, lambda text: json.dumps(text)[1:-1]))
