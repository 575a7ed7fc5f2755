"""Helpers of commands that call the server over HTTP."""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, NoReturn
from urllib.parse import quote

import msgspec
from cyclopts import Parameter
from msgspec import UNSET

from postdate.cli.choice import Nothing
from postdate.cli.column import COLUMNS
from postdate.cli.output import UsageError, show
from postdate.client import Client, PostdateError, ProblemError, UnreachableError
from postdate.node.admin_key import KEY_FILE, read_key
from postdate.node.settings import load
from postdate.words.error import StartError

EXITS: Final = {400: 2, 401: 4, 403: 4, 404: 3, 409: 5, 413: 2, 422: 2}
"""0 done, 1 failed, 2 wrong usage, 3 not found, 4 denied, 5 conflict; 6 partly, 7 findings."""

OTHERWISE: Final = 1
"""The exit code when something ended, but not as was waited for."""

PARTLY: Final = 6
POLL_SECONDS: Final = 0.5
MAX_OFFERED: Final = 100
"""How many names a shell is offered."""

ENDED: Final = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


def server() -> tuple[str, str]:
    """Return the address of the server that the settings name, and the key to call it with."""
    settings = load()
    key = settings.api_key or settings.admin_key or read_key(settings.data_dir / KEY_FILE)
    return settings.url or f"http://{settings.host}:{settings.port}", key or ""


@contextmanager
def connected(retries: int = 0) -> Iterator[Client]:
    """Return a client of the server that the settings name; a refusal ends the command."""
    url, key = server()
    try:
        with Client(url, key, retries=retries) as client:
            yield client
    except UnreachableError as error:
        raise StartError(f"{error}; is the server running? POSTDATE_URL names another") from error
    except ProblemError as error:
        _fail(error)


def call(method: str, path: str, body: Any = None, **options: Any) -> Any:
    """Call the server that the settings name; a refusal ends the command with its exit code."""
    with connected() as client:
        return client.call(method, path, body, **options)


def _fail(error: ProblemError) -> NoReturn:
    place = f" ({error.field})" if error.field else ""
    print(f"postdate: {error.detail}{place} [{error.code}]", file=sys.stderr)
    sys.exit(EXITS.get(error.status, 1))


def print_page(path: str, noun: str, **query: Any) -> None:
    """Print one page of a list."""
    found = call("GET", path, query=query).get(noun, [])
    show(found, columns=COLUMNS.get(noun, ()))


def parse(text: str | None) -> Any:
    """Parse a JSON value from the command line."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise UsageError(f"that is not JSON: {error}") from error


def without_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def limit_of(value: float | Nothing | None) -> Any:
    """Parse a limit: absent stays absent, `none` removes the limit."""
    return UNSET if value is None else None if value == "none" else value


def changed(**fields: Any) -> dict[str, Any]:
    """Return the fields to change; refuse an empty change."""
    found = {name: value for name, value in fields.items() if value is not UNSET}
    if not found:
        raise UsageError("give at least one option to change; see --help")
    return found


def item_path(path: str, name: str, *more: str) -> str:
    """Return the path of one item, with its name escaped."""
    return "/".join([path, quote(name, safe=""), *more])


def wait(path: str, until: str, seconds: float) -> None:
    """Wait until a job or payment has a status; exit with an error if it ends with another."""
    deadline = time.monotonic() + seconds
    while True:
        found: dict[str, Any] = call("GET", path)
        if found["status"] == until or found["status"] in ENDED:
            break
        if time.monotonic() >= deadline:
            raise StartError(f"it is still {found['status']} after {seconds:g} s")
        time.sleep(POLL_SECONDS)
    show(found)
    if found["status"] != until:
        sys.exit(OTHERWISE)


def _completions(path: str, noun: str, names: tuple[str, str]) -> Iterable[tuple[str, str]]:
    """Return what a shell may complete; nothing if the server does not answer or refuses."""
    url, key = server()
    name, about = names
    try:
        with Client(url, key, retries=0) as client:
            found = client.call("GET", path, query={"limit": MAX_OFFERED})[noun]
    except PostdateError:
        return []
    return [(each[name], str(each.get(about) or "")) for each in found]


Limit = Annotated[int, Parameter(help="Maximum number, up to 100.")]
Key = Annotated[str | None, Parameter(help="Idempotency key: makes repeating the command safe.")]
Reason = Annotated[str | None, Parameter(help="Why: the next person on call reads it.")]
Yes = Annotated[bool, Parameter(negative=(), help="Do not ask for confirmation.")]
DryRun = Annotated[bool, Parameter(negative=(), help="Only show what would be done.")]
Seconds = Annotated[float, Parameter(help="Maximum time to wait.")]
Lane = Annotated[
    str,
    Parameter(
        help="The name of the lane.",
        completer=lambda _: _completions("/lanes", "lanes", ("lane", "kind")),
    ),
]
ScheduleId = Annotated[
    str,
    Parameter(
        help="The id of the schedule.",
        completer=lambda _: _completions("/schedules", "schedules", ("schedule_id", "name")),
    ),
]
DestinationName = Annotated[
    str,
    Parameter(
        help="The name of the destination.",
        completer=lambda _: _completions("/destinations", "destinations", ("name", "type")),
    ),
]
