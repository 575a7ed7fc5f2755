"""Helpers of commands that call the server over HTTP."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn

import msgspec

from postdate.client import Client, ConfigurationError, ProblemError, UnreachableError
from postdate.client.configuration import API_KEY, URL, ServerAddress, find_server
from postdate.client.operation import Operation
from postdate.node.settings import load
from postdate.words.client_file import FILE
from postdate.words.error import StartError

EXITS: Final = {400: 2, 401: 4, 403: 4, 404: 3, 409: 5, 413: 2, 422: 2}
"""0 done, 1 failed, 2 wrong usage, 3 not found, 4 denied, 5 conflict; 6 partly, 7 findings."""

DENIED: Final = frozenset({401, 403})


def server() -> ServerAddress:
    """Find the server and the key: by the settings, or by what a server keeps in its directory."""
    settings = load()
    url = key = None
    if not os.environ.get(URL):
        stated = settings.url or f"http://{settings.host}:{settings.port}"
        url = settings.url if (settings.data_dir / FILE).exists() else stated
    if not os.environ.get(API_KEY):
        key = settings.api_key or settings.admin_key or None
    try:
        return find_server(url, key, directory=settings.data_dir, given="the settings")
    except ConfigurationError as error:
        raise StartError(str(error)) from error


@contextmanager
def connected(retries: int = 0) -> Iterator[Client]:
    """Return a client of the server that was found; a refusal ends the command."""
    found = server()
    try:
        with Client(found.url, found.api_key, retries=retries) as client:
            yield client
    except UnreachableError as error:
        place = f"the address is from {found.url_origin}"
        raise StartError(f"{error}; is the server running? {place}") from error
    except ConfigurationError as error:
        raise StartError(str(error)) from error
    except ProblemError as error:
        _fail(error, found)


def send(operation: Operation, given: Mapping[str, Any]) -> Any:
    """Call an operation of the server; a refusal ends the command with its exit code."""
    with connected() as client:
        return msgspec.json.decode(client.fetch(operation, given) or b"null")


def call(method: str, path: str, body: Any = None, **options: Any) -> Any:
    """Call the server that the settings name; a refusal ends the command with its exit code."""
    with connected() as client:
        return client.call(method, path, body, **options)


def _fail(error: ProblemError, found: ServerAddress) -> NoReturn:
    place = f" ({error.field})" if error.field else ""
    print(f"postdate: {error.detail}{place} [{error.code}]", file=sys.stderr)
    if error.status in DENIED:
        print(f"postdate: asked {found}", file=sys.stderr)
    sys.exit(EXITS.get(error.status, 1))
