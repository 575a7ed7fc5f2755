"""`postdate doctor`: what is wrong here, and what to do about it."""

import sys
from collections.abc import Iterator
from typing import Final

from postdate.cli import diagnosis
from postdate.cli.commands.status import read_readiness
from postdate.cli.diagnosis import Finding
from postdate.cli.output import show
from postdate.cli.remote import server
from postdate.client import Client, PostdateError
from postdate.client.configuration import ServerAddress
from postdate.node.settings import load
from postdate.words.error import StartError

FOUND: Final = 7
"""The exit code when something is wrong."""


def doctor() -> None:
    """Examine machine, server, database, clock, key, workers and webhooks; say what to do.

    The exit code is 7 if something is wrong, 0 if there are notes at most.
    """
    found = list(_examine())
    show(found, columns=("check", "state", "found", "do"))
    if any(each.state == "wrong" for each in found):
        sys.exit(FOUND)


def _examine() -> Iterator[Finding]:
    try:
        settings = load()
    except StartError as error:
        yield Finding(check="settings", state="wrong", found=str(error), do="correct that setting")
        return
    yield from diagnosis.machine(settings.data_dir)
    yield from diagnosis.data_directory(settings.data_dir)
    try:
        address = server()
    except StartError as error:
        do = "run `postdate serve` here, or set POSTDATE_URL and POSTDATE_API_KEY"
        yield Finding(check="address", state="wrong", found=str(error), do=do)
        return
    yield Finding(check="address", state="ok", found=str(address))
    yield from _examine_server(address)


def _examine_server(address: ServerAddress) -> Iterator[Finding]:
    try:
        health, said_at = read_readiness(address)
    except StartError as error:
        do = "start it: `make run` in the clone, or `postdate serve`; its log says why it ended"
        yield Finding(check="server", state="wrong", found=str(error), do=do)
        return
    yield from diagnosis.readiness(health)
    now = diagnosis.now()
    yield from diagnosis.clock(said_at, now)
    with Client(address.url, address.api_key, retries=0) as client:
        try:
            who = client.keys.whoami()
        except PostdateError as error:
            do = f"give another key: it came from {address.key_origin}"
            yield Finding(check="key", state="wrong", found=str(error), do=do)
            return
        scopes = ", ".join(map(str, who.scopes))
        yield Finding(check="key", state="ok", found=f"tenant {who.tenant}; {scopes}")
        yield from diagnosis.tenant(client, said_at or now)
