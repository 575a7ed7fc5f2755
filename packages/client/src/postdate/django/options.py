"""The `OPTIONS` of a backend in the setting `TASKS`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from django.core.exceptions import ImproperlyConfigured

from postdate.task.duration import seconds_of

Enqueue = Literal["at_once", "on_commit", "in_transaction"]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where the server is, and how tasks are enqueued.

    `enqueue` says what a transaction means: `at_once` ignores it, `on_commit` waits for its end,
    `in_transaction` makes the job a part of it.
    """

    url: str | None = None
    api_key: str | None = None
    enqueue: Enqueue = "at_once"
    database: str = "default"
    retry: Annotated[int, msgspec.Meta(ge=0)] | None = None
    timeout: str | float | None = None

    def job(self) -> dict[str, Any]:
        """Return the fields that every job of this backend has."""
        made: dict[str, Any] = {}
        if self.retry is not None:
            made["retry"] = {"max_attempts": self.retry + 1}
        if self.timeout is not None:
            made["timeout_seconds"] = seconds_of(self.timeout)
        return made


def read_options(alias: str, given: Mapping[str, Any]) -> Options:
    """Read the options of a backend; what is wrong with them is said with their name."""
    try:
        options = msgspec.convert(dict(given), Options)
        options.job()
    except ValueError as error:
        raise ImproperlyConfigured(f"TASKS[{alias!r}]['OPTIONS']: {error}") from error
    return options
