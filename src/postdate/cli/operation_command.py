"""An operation of the API as a command: parts of the path, then an option for each field."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature
from typing import Annotated, Any, Final, TypeAlias

import cyclopts

from postdate.cli.answer import show_answer
from postdate.cli.option import (
    OperationField,
    Option,
    fields_of,
    members_of,
    object_of,
    option,
    read_object,
    summary,
)
from postdate.cli.output import UsageError
from postdate.cli.remote import send
from postdate.client.operation import Operation
from postdate.core.operation_name import option_name

BODY: Final = Parameter(
    "body",
    Parameter.KEYWORD_ONLY,
    default=None,
    annotation=Annotated[
        str | None,
        cyclopts.Parameter(help="The body, or the rest of it, as JSON; options come before it."),
    ],
)
GivenOptions: TypeAlias = dict[str, Any]
"""What a command line gives: the value of each option that stands there, by its name."""


@dataclass(frozen=True, kw_only=True)
class Sugar:
    """What a command has beside the fields of its operation.

    `adds`: options that are no fields; `fill` takes their values and sets fields. `hides`: fields
    that `fill` or `act` give, by name or as `object.field`. `positional`: fields that need no
    option name though they may be absent. `act` does it, instead of a single call, with what
    `fill` left of the options.
    """

    adds: Sequence[Parameter] = ()
    fill: "Callable[[GivenOptions, GivenOptions], None] | None" = None
    hides: frozenset[str] = frozenset()
    positional: frozenset[str] = frozenset()
    act: "Callable[[CommandCall, GivenOptions], None] | None" = None
    help: str = ""


@dataclass(frozen=True)
class CommandCall:
    """A call that a command line describes: the operation, and its fields by their names there."""

    operation: Operation
    fields: GivenOptions

    def send(self, **more: Any) -> Any:
        """Call the server, with other values of some fields; a refusal ends the command."""
        return send(self.operation, {**self.fields, **more})

    def show(self) -> None:
        """Call the server and print its answer."""
        show_answer(self.operation, self.fields, self.send())


class OperationCommand:
    """The command of one operation."""

    def __init__(self, operation: Operation, sugar: Sugar | None = None) -> None:
        self.operation = operation
        self.sugar = sugar or Sugar()

    @cached_property
    def options(self) -> list[Option]:
        """Make an option for each field, and for the members of objects in the body."""
        fields = self._shown(fields_of(self.operation))
        names = [*(each.name for each in fields), *(each.name for each in self.sugar.adds)]
        taken = {option_name(name) for name in names}
        own = self.sugar.positional
        found = [option(f, taken, positional=True if f.name in own else None) for f in fields]
        for each in fields:
            found += self._inside(each, taken, ())
        return found

    def _inside(
        self, field: OperationField, taken: set[str], above: tuple[str, ...]
    ) -> Iterator[Option]:
        if (inner := object_of(field.kind)) is None:
            return
        below = (*above, field.wire)
        members = self._shown(members_of(inner), field.wire)
        for each in members:
            if object_of(each.kind) is None:
                yield option(each, taken, below=below)
        for each in members:
            yield from self._inside(each, taken, below)

    def _shown(self, fields: Iterable[OperationField], inside: str = "") -> list[OperationField]:
        hides = self.sugar.hides
        return [f for f in fields if f.name not in hides and f"{inside}.{f.name}" not in hides]

    @cached_property
    def signature(self) -> Signature:
        """Return what cyclopts reads."""
        found = [*(each.parameter for each in self.options), *self.sugar.adds]
        if self.operation.has_body:
            found.append(BODY)
        return Signature(sorted(found, key=lambda each: each.kind))

    @property
    def help(self) -> str:
        """Return what the command does, in the words of the operation."""
        return self.sugar.help or summary(self.operation.declared.__doc__)

    def add_to(self, app: cyclopts.App, *names: str) -> None:
        """Add the command to the group of its noun."""

        def run(*values: Any, **named: Any) -> None:
            bound = self.signature.bind(*values, **named)
            bound.apply_defaults()
            self.run({name: each for name, each in bound.arguments.items() if each is not None})

        run.__signature__ = self.signature  # type: ignore[attr-defined] # cyclopts reads it
        run.reads = self.operation.method == "GET"  # type: ignore[attr-defined] # for --watch
        run.__annotations__ = {n: p.annotation for n, p in self.signature.parameters.items()}
        app.command(run, name=names, help=self.help)

    def run(self, given: GivenOptions) -> None:
        """Do what a command line says."""
        call = CommandCall(self.operation, self.fields(given))
        if self.sugar.act:
            self.sugar.act(call, given)
        else:
            call.show()

    def fields(self, given: GivenOptions) -> GivenOptions:
        """Return the fields of the call; options that are no fields stay in `given`."""
        found = read_object(given.pop("body", None))
        for each in self.options:
            if each.name in given:
                _put(found, each.path, each.value_of(given.pop(each.name)))
        if self.sugar.fill:
            self.sugar.fill(given, found)
        self._check(found)
        return found

    def _check(self, found: Mapping[str, Any]) -> None:
        if self.operation.method == "PATCH" and not self.operation.fields(found):
            raise UsageError("give at least one option to change; see --help")
        for name, each in self.operation.signature.parameters.items():
            if each.default is Parameter.empty and name.removesuffix("_") not in found:
                raise UsageError(f"{option_name(name)} is missing; see --help")


def _put(body: GivenOptions, path: Sequence[str], value: Any) -> None:
    *above, last = path
    for name in above:
        body = body.setdefault(name, {})
        if not isinstance(body, dict):
            raise UsageError(f"{option_name(name)} is no object, so it has no {option_name(last)}")
    body[last] = value
