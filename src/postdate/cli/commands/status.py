"""`postdate status` and `postdate whoami`: which server is used here, and with which rights."""

import sys
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import msgspec

from postdate.cli.noun import group_operations
from postdate.cli.output import show
from postdate.cli.remote import send, server
from postdate.client.configuration import ServerAddress
from postdate.client.operation import Operation
from postdate.words.error import StartError

TIMEOUT_SECONDS: Final = 10.0
UNREADY: Final = 1
_DIRECT: Final = build_opener(ProxyHandler({}))


def whoami() -> None:
    """Show the tenant and scopes of the key that is used here."""
    show(send(_whoami(), {}))


def status() -> None:
    """Show the server that is used here, whether it is ready, and what the key may do.

    The exit code is 1 if the server is not ready. Parts that are degraded or overdue are listed.
    """
    found = server()
    health, _ = read_readiness(found)
    who = send(_whoami(), {})
    answer = {
        "url": found.url,
        "ready": health["ready"],
        "reads": health["reads"],
        "writes": health["writes"],
        "not_ready": [_sentence(part) for part in health["reasons"]],
        "degraded": [_sentence(part) for part in health["degraded"]],
        "overdue": health["overdue"],
        "tenant": who["tenant"],
        "scopes": who["scopes"],
        "url_from": found.url_origin,
        "key_from": found.key_origin,
    }
    show(answer)
    if not health["ready"]:
        sys.exit(UNREADY)


def _whoami() -> Operation:
    return next(each for each, _ in group_operations("keys") if each.name == "whoami")


def _sentence(part: dict[str, Any]) -> str:
    return f"{part['name']}: {part['reason']}"


def read_readiness(found: ServerAddress) -> tuple[dict[str, Any], datetime | None]:
    """Read `/readyz`, which needs no key, and the time of the answer.

    The server answers 503 with the reasons.
    """
    try:
        try:
            with _DIRECT.open(f"{found.url}/readyz", timeout=TIMEOUT_SECONDS) as response:
                data, said_at = response.read(), response.headers["date"]
        except HTTPError as refused:
            data, said_at = refused.read(), refused.headers["date"]
        answer: dict[str, Any] = msgspec.json.decode(data)
    except (OSError, HTTPException, msgspec.DecodeError) as error:
        origin = f"the address is from {found.url_origin}"
        raise StartError(f"{found.url} does not answer: {error}; {origin}") from error
    return answer, parsedate_to_datetime(said_at) if said_at else None
