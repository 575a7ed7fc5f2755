"""The arguments of a task: checked when it is called, and again when it runs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

import msgspec

from postdate.client.models.leases import Lease
from postdate.client.running_job import JOBS, AsyncRunningJob, RunningJob

RESERVED: Final = frozenset({
    "using", "idempotency_key", "key", "timezone", "schedule", "unique",
})  # fmt: skip
"""Options of the scheduling calls, so no task has parameters of these names."""


class Arguments:
    """What a function takes: one JSON field for each parameter.

    A parameter of the type `RunningJob` (of an asynchronous function: `AsyncRunningJob`) or `Lease`
    is no argument: the worker fills it in with the running job.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = function.__name__
        self._signature = inspect.signature(function)
        hints = get_type_hints(function, include_extras=True)
        self.returns: Any = hints.get("return", Any)
        self._leases = [name for name in self._signature.parameters if hints.get(name, Any) in JOBS]
        wrong = RunningJob if inspect.iscoroutinefunction(function) else AsyncRunningJob
        if any(hints[name] is wrong for name in self._leases):
            fitting = AsyncRunningJob if wrong is RunningJob else RunningJob
            raise TypeError(
                f"{self._name}(): the type of its job is {fitting.__name__}, not {wrong.__name__}"
            )
        self._fields = msgspec.defstruct(
            f"{self._name}_arguments",
            [self._field(each, hints) for each in self._parameters()],
            forbid_unknown_fields=True,
            kw_only=True,
        )

    def _parameters(self) -> list[inspect.Parameter]:
        return [
            each for name, each in self._signature.parameters.items() if name not in self._leases
        ]

    def _field(self, parameter: inspect.Parameter, hints: Mapping[str, Any]) -> tuple[Any, ...]:
        if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            raise TypeError(f"{self._name}(): a task names its parameters; it has no {parameter}")
        if parameter.name in RESERVED:
            raise TypeError(
                f"{self._name}(): no parameter of a task is called {parameter.name!r}, "
                f"which is an option of the calls that schedule it"
            )
        kind = hints.get(parameter.name, Any)
        if parameter.default is parameter.empty:
            return (parameter.name, kind)
        return (parameter.name, kind, msgspec.field(default_factory=lambda: parameter.default))

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return a call's arguments as JSON fields; raise TypeError where they do not fit."""
        open_signature = self._signature.replace(parameters=self._parameters())
        given = open_signature.bind(*args, **kwargs).arguments
        try:
            plain = msgspec.to_builtins(given, str_keys=True)
        except TypeError as error:
            raise TypeError(f"{self._name}(): {error}") from None
        self._checked(plain)
        return dict(plain)

    def decode(self, payload: Any, lease: Lease) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of a call from a stored payload."""
        fields = self._checked({} if payload is None else payload)
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for name, parameter in self._signature.parameters.items():
            value = lease if name in self._leases else getattr(fields, name)
            if parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[name] = value
            else:
                args.append(value)
        return args, kwargs

    def _checked(self, plain: Any) -> Any:
        try:
            return msgspec.convert(plain, self._fields, str_keys=True)
        except msgspec.ValidationError as error:
            raise TypeError(f"{self._name}(): {error}") from None


def unique_rule(given: str | Mapping[str, Any]) -> dict[str, Any]:
    """Return the rule of a unique key, which may be given as the key alone."""
    return {"key": given} if isinstance(given, str) else dict(given)
