"""Helpers of commands that call the server over HTTP."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import msgspec

from postdate.client import Client, ProblemError, UnreachableError
from postdate.client.operation import Operation
from postdate.node.admin_key import KEY_FILE, read_key
from postdate.node.settings import load
from postdate.words.error import StartError

EXITS: Final = {400: 2, 401: 4, 403: 4, 404: 3, 409: 5, 413: 2, 422: 2}
"""0 done, 1 failed, 2 wrong usage, 3 not found, 4 denied, 5 conflict; 6 partly, 7 findings."""


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


def send(operation: Operation, given: Mapping[str, Any]) -> Any:
    """Call an operation of the server; a refusal ends the command with its exit code."""
    with connected() as client:
        return msgspec.json.decode(client.fetch(operation, given) or b"null")


def call(method: str, path: str, body: Any = None, **options: Any) -> Any:
    """Call the server that the settings name; a refusal ends the command with its exit code."""
    with connected() as client:
        return client.call(method, path, body, **options)


def _fail(error: ProblemError) -> NoReturn:
    place = f" ({error.field})" if error.field else ""
    print(f"postdate: {error.detail}{place} [{error.code}]", file=sys.stderr)
    sys.exit(EXITS.get(error.status, 1))
