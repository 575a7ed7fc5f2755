"""`postdate top`: a live view of the server in the terminal, or one page of it as JSON."""

import asyncio
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Annotated, Any, Final
from urllib.request import ProxyHandler, build_opener

import uvloop
from cyclopts import Parameter
from rich.live import Live

from postdate.cli import vitals_page
from postdate.cli.output import options, show, wants_json
from postdate.cli.remote import server
from postdate.cli.top_facts import TenantFacts, read_facts
from postdate.cli.top_screen import LaneAction, Screen, keys
from postdate.cli.vitals_page import Samples, VitalsPage
from postdate.client import AsyncClient, ProblemError, UnreachableError
from postdate.words.error import StartError

SCRAPE_SECONDS: Final = 5.0
FACTS_SECONDS: Final = 10.0
"""How long failures, money and destinations are remembered."""

MAX_LANES: Final = 100
READ_ONLY: Final = "started with --read-only: nothing can be changed here"

_DIRECT: Final = build_opener(ProxyHandler({}))
"""Reads metrics without the proxies of the environment."""

Interval = Annotated[float, Parameter(help="Seconds between two refreshes.")]


def top(
    *,
    once: bool = False,
    interval: Interval = 2.0,
    read_only: bool = False,
    node: list[str] | None = None,
) -> None:
    """Show what waits, fails and moves, live: work, money, failures by destination, lanes.

    Keys: `?` explains all, `/` filters lanes, `s` sorts, `p` freezes, `j` and `k` move, `P` pauses
    the lane under the cursor and `R` resumes it (each asks first), `q` leaves. In a pipe it prints
    JSON lines.

    Parameters
    ----------
    once
        Print one page and exit.
    interval
        Seconds between two refreshes.
    read_only
        Disable all commands that change something.
    node
        Address of another process's metrics, such as http://worker:9090; may be repeated.

    """
    found = server()
    watch = ServerWatch(found.url, found.api_key, [found.url, *(node or [])], interval)
    if once:
        options().form = "json" if options().form == "table" else options().form
        show(uvloop.run(watch.once()))
    elif sys.stdout.isatty() and sys.stdin.isatty() and not wants_json():
        uvloop.run(watch.live(read_only=read_only))
    else:
        options().form = "jsonl"
        uvloop.run(watch.stream())


class ServerWatch:
    """Polls a server."""

    def __init__(self, url: str, key: str, nodes: Sequence[str], interval: float) -> None:
        self._url = url
        self._key = key
        self._nodes = nodes
        self._interval = interval
        self._before: tuple[float, Samples] | None = None
        self._facts: tuple[float, TenantFacts] | None = None

    async def once(self) -> VitalsPage:
        """Poll twice, to compute rates, and return one page."""
        await self._look()
        await asyncio.sleep(self._interval)
        return await self._look()

    async def stream(self) -> None:
        """Print a line of JSON for each poll."""
        while True:
            show(await self.once())

    async def live(self, *, read_only: bool) -> None:
        """Draw until the user quits."""
        screen = Screen(read_only=read_only)
        with Live(screen=True, auto_refresh=False) as drawn, keys() as pressed:
            looking = asyncio.create_task(self._keep(screen))
            try:
                while not screen.left:
                    drawn.update(screen.draw(), refresh=True)
                    action = screen.handle_key(await pressed(0.2))
                    if action is not None:
                        await self._act(screen, action)
            finally:
                looking.cancel()

    async def _keep(self, screen: Screen) -> None:
        while True:
            try:
                screen.learn(await self._look())
            except StartError as error:
                screen.mark_stale(str(error))
            await asyncio.sleep(self._interval)

    async def _act(self, screen: Screen, action: LaneAction) -> None:
        if screen.read_only:
            screen.show_line(READ_ONLY)
            return
        try:
            async with AsyncClient(self._url, self._key) as client:
                body = {"note": "by postdate top"} if action.verb == "pause" else None
                await client.call("POST", f"/lanes/{action.lane}/{action.verb}", body)
        except (ProblemError, UnreachableError) as error:
            screen.show_line(f"{action.verb} {action.lane}: {error}")
        else:
            screen.show_line(f"{action.verb} {action.lane}: done")

    async def _look(self) -> VitalsPage:
        texts = [await _metrics(url) for url in self._nodes]
        after = await asyncio.to_thread(vitals_page.parse, texts)
        now = time.monotonic()
        began, before = self._before or (now - self._interval, after)
        self._before = now, after
        lanes, facts = await self._of_tenant()
        return vitals_page.page(self._url, before, after, max(now - began, 0.001), lanes, facts)

    async def _of_tenant(self) -> tuple[list[dict[str, Any]], TenantFacts | None]:
        """Read what the key may see; without a key, the rest of the page still works."""
        if not self._key:
            return [], None
        try:
            async with AsyncClient(self._url, self._key) as client:
                return await _lanes(client), await self._known_facts(client)
        except UnreachableError as error:
            raise StartError(str(error)) from error

    async def _known_facts(self, client: AsyncClient) -> TenantFacts:
        """Return the facts, at most some seconds old: they take several requests."""
        now = time.monotonic()
        if self._facts is None or now - self._facts[0] >= FACTS_SECONDS:
            self._facts = now, await read_facts(client, datetime.now(UTC))
        return self._facts[1]


async def _lanes(client: AsyncClient) -> list[dict[str, Any]]:
    try:
        found = await client.call("GET", "/lanes", query={"limit": MAX_LANES})
    except ProblemError:
        return []
    lanes: list[dict[str, Any]] = found["lanes"]
    return lanes


async def _metrics(url: str) -> str:
    try:
        return await asyncio.to_thread(_read, f"{url.rstrip('/')}/metrics")
    except (OSError, ValueError, HTTPException) as error:
        raise StartError(f"{url} does not answer: {error or 'too slow'}") from error


def _read(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError("its address must begin with http:// or https://")
    with _DIRECT.open(url, timeout=SCRAPE_SECONDS) as response:
        return str(response.read().decode())
