"""Options that several commands have beside the fields of their operations."""

import sys
import time
from datetime import UTC, datetime
from inspect import Parameter
from typing import Annotated, Any, Final

import cyclopts

from postdate.cli.completion import completer
from postdate.cli.instant import read_instant
from postdate.cli.number import convert_seconds
from postdate.cli.operation_command import CommandCall, GivenOptions, OperationCommand, Sugar
from postdate.cli.option import fields_of, option, read_object
from postdate.cli.output import UsageError, show
from postdate.client.operation import Operation
from postdate.core.operation_name import option_name
from postdate.words.error import StartError

OTHERWISE: Final = 1
"""The exit code when something ended, but not as was waited for."""
PARTLY: Final = 6
POLL_SECONDS: Final = 0.5
ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


def extra(
    own: str, kind: Any, text: str, default: Any = None, *, positional: bool = False, **more: Any
) -> Parameter:
    """Make an option that is no field of an operation."""
    shown = cyclopts.Parameter(help=text, completer=completer(own), **more)
    place = Parameter.POSITIONAL_OR_KEYWORD if positional else Parameter.KEYWORD_ONLY
    return Parameter(own, place, default=default, annotation=Annotated[kind, shown])


YES: Final = extra("yes", bool, "Do not ask for confirmation.", negative=(), default=False)

TARGET: Final = (
    extra("url", str | None, "Call this webhook."),
    extra("destination", str | None, "Call the webhook of this name; or the whole as JSON."),
    extra("queue", str | None, "Put it on the queue of this name."),
    extra("subject", str | None, "The subject on a queue."),
)
"""Where a job or an event goes: a URL, a named destination, or else the workers of the lane."""


def take_target(given: GivenOptions) -> dict[str, Any] | None:
    """Take the target out of the options; None where none was given."""
    url, named, queue = (given.pop(name, None) for name in ("url", "destination", "queue"))
    subject = given.pop("subject", None)
    if sum(each is not None for each in (url, named, queue)) > 1:
        raise UsageError("give one of --url, --destination and --queue")
    more = {} if subject is None else {"subject": subject}
    if url is not None:
        return {"type": "webhook", "url": url, **more}
    if named is not None:
        is_json = named.startswith("{")
        return {**(read_object(named) if is_json else {"type": "webhook", "name": named}), **more}
    if queue is not None:
        return {"type": "queue", "name": queue, **more}
    if subject is not None:
        raise UsageError("--subject belongs to --queue or --destination")
    return None


WHEN: Final = (
    extra("in_", int | float | None, "Due after this time, such as 5m or 1d12h.",
          name="--in", converter=convert_seconds),
    extra("at", str | None, "Due at this time, such as `tomorrow 9:00` or 2030-01-01T09:00:00Z."),
    extra("timezone", str | None, "The zone of --at; that of this machine if absent."),
)  # fmt: skip
"""When something is due, as people say it."""


def take_time(given: GivenOptions, fields: GivenOptions, instant: str, *, needed: bool) -> None:
    """Set the time from what people write; refuse two times, or none where one is needed."""
    after, at, zone = (given.pop(name, None) for name in ("in_", "at", "timezone"))
    chosen = [name for name in (instant, "delay_seconds") if name in fields]
    count = len(chosen) + (after is not None) + (at is not None)
    if count > 1 or (needed and not count):
        raise UsageError(f"give either {option_name(instant)} or --delay-seconds, --in or --at")
    if zone is not None and at is None:
        raise UsageError("--timezone belongs to --at")
    if after is not None:
        fields["delay_seconds"] = after
    if at is not None:
        fields[instant] = read_instant(at, zone, datetime.now(UTC)).isoformat()


def wait_command(get: Operation, listed: Operation, noun: str) -> OperationCommand:
    """Make the command that waits until a job or payment has a status."""
    status = next(each for each in fields_of(listed) if each.name == "status")
    kind = option(status, set()).parameter.annotation.__origin__

    def act(call: CommandCall, given: GivenOptions) -> None:
        _wait(call, given["until"], given["timeout_seconds"])

    sugar = Sugar(
        adds=(
            extra("until", kind, "The status.", "COMPLETED", name="--for"),
            extra("timeout_seconds", float, "Maximum time to wait.", 60.0),
        ),
        act=act,
        help=f"Wait until a {noun} has a status; exit code 1 if it ends otherwise or is too slow.",
    )
    return OperationCommand(get, sugar)


def _wait(call: CommandCall, until: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        found: dict[str, Any] = call.send()
        if found["status"] == until or found["status"] in ENDED:
            break
        if time.monotonic() >= deadline:
            raise StartError(f"it is still {found['status']} after {seconds:g} s")
        time.sleep(POLL_SECONDS)
    show(found)
    if found["status"] != until:
        sys.exit(OTHERWISE)
