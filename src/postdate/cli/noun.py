"""Declare the commands of one noun that are a single call of the API."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any

import cyclopts

from postdate.cli.output import show
from postdate.cli.remote import Limit, Reason, call, item_path, print_page, without_none

LIMIT = Parameter("limit", Parameter.KEYWORD_ONLY, default=20, annotation=Limit)
REASON = Parameter("reason", Parameter.KEYWORD_ONLY, default=None, annotation=Reason)


class Noun:
    """A group of commands about the items under one path; `key` names the item."""

    def __init__(self, app: cyclopts.App, path: str, key: str, kind: Any = str) -> None:
        self._app = app
        self._path = path
        self._key = key
        self._one = Parameter(key, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)

    def list_all(self, text: str, noun: str | None = None) -> None:
        """Add `list`: print one page."""
        name = noun or self._path.strip("/")
        self._add("list", text, [LIMIT], lambda **words: print_page(self._path, name, **words))

    def list_of_one(self, name: str, text: str, *, paged: bool = True) -> None:
        """Add a command that lists a sub-resource, named as in the API."""

        def act(**words: Any) -> None:
            print_page(item_path(self._path, words.pop(self._key), name), name, **words)

        self._add(name, text, [self._one, *([LIMIT] if paged else [])], act)

    def get(self, text: str) -> None:
        """Add `get`: show one item."""
        self._add("get", text, [self._one], lambda **words: show(call("GET", self._of(words))))

    def act(
        self,
        verb: str,
        text: str,
        *,
        method: str = "POST",
        reason: str | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        """Add a verb that acts on one item; `reason` names the field that takes the reason."""

        def act(**words: Any) -> None:
            why = {reason: words["reason"]} if reason else {}
            sent = {**(body or {}), **without_none(**why)} if reason or body is not None else None
            show(call(method, self._of(words, verb), sent))

        self._add(verb, text, [self._one, *([REASON] if reason else [])], act)

    def change(self, verb: str, text: str, body: Mapping[str, Any], reason: str | None) -> None:
        """Add a verb that is a PATCH of the item in the API."""

        def act(**words: Any) -> None:
            why = {reason: words["reason"]} if reason else {}
            show(call("PATCH", self._of(words), {**body, **without_none(**why)}))

        self._add(verb, text, [self._one, *([REASON] if reason else [])], act)

    def delete(self, text: str, verb: str = "delete", done: str = "deleted") -> None:
        """Add a verb that removes one item and prints that."""

        def act(**words: Any) -> None:
            call("DELETE", self._of(words))
            show({**words, done: True})

        self._add(verb, text, [self._one], act)

    def _of(self, words: Mapping[str, Any], *more: str) -> str:
        return item_path(self._path, words[self._key], *more)

    def _add(
        self, name: str, text: str, parameters: list[Parameter], act: Callable[..., None]
    ) -> None:
        signature = Signature(parameters)

        def run(*values: Any, **named: Any) -> None:
            bound = signature.bind(*values, **named)
            bound.apply_defaults()
            act(**bound.arguments)

        run.__doc__ = text
        run.__signature__ = signature  # type: ignore[attr-defined] # this is what cyclopts reads
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        self._app.command(run, name=name)
