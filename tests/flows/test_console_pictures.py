"""Every page of the console as a picture, to be looked at: each must open, fit and break no rule.

The rules are those of its policy and of axe. The pictures are in `build/console`: 1440 and 390
pixels wide, light and dark.
"""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from conftest import scratch
from postdate.client import Client
from support import console_gallery
from support.real_browser import needs_chromium
from support.receiver import Receiver
from support.serve_process import Served

pytestmark = [pytest.mark.soak, needs_chromium]


async def refuse(_: web.Request) -> web.Response:
    return web.Response(status=503, text="the billing system is being upgraded")


async def photograph(directory: Path, receiver: Receiver) -> list[str]:
    served = Served(directory, env={"POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8"})
    await served.start()
    await served.ready()
    try:
        with Client(served.url, served.key) as client:
            await asyncio.to_thread(console_gallery.fill, client, receiver.url("").rstrip("/"))
            pages = await asyncio.to_thread(console_gallery.pages, client)
        return await console_gallery.photograph(served.url, served.key, pages)
    finally:
        await served.stop()


async def test_every_page_has_its_picture_and_fits(receiver: Receiver) -> None:
    receiver.script("/broken", refuse)
    with scratch() as directory:
        assert await photograph(directory / "data", receiver) == []
