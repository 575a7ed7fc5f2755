"""Each `curl` of the guides is run as it stands, in the order of its page: all are accepted."""

import asyncio
import os
import re
import shutil
from pathlib import Path

import pytest

from conftest import INTERNAL_TOKEN, Api

GUIDES = Path(__file__).parents[2] / "docs/guides"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
HOST = re.compile(r"(?:http://)?(?:localhost|127\.0\.0\.1):8080")
# A call prints its status and nothing else; the commands of the CLI have tests of their own.
PRELUDE = """
curl() { command curl -s -o /dev/null -w '%{http_code}\\n' "$@"; }
postdate() { :; }
"""

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="no curl on this machine")


def calls(page: str) -> list[str]:
    """Give the blocks of a guide that call the API."""
    found = BLOCK.findall((GUIDES / page).read_text())
    return [block for block in found if re.search(r"^curl ", block, re.MULTILINE)]


PAGES = sorted(page.name for page in GUIDES.glob("*.md") if calls(page.name))


def test_guides_with_calls_are_found() -> None:
    assert {"webhooks.md", "schedules.md", "events.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
async def test_every_call_of_a_guide_is_accepted(api: Api, page: str) -> None:
    known = {"KEY": api.key, "POSTDATE_API_KEY": api.key, "TOKEN": INTERNAL_TOKEN, "URL": api.url}
    for block in calls(page):
        process = await asyncio.create_subprocess_exec(
            "bash", "-euc", PRELUDE + HOST.sub(api.url, block),
            env={**os.environ, **known}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(30):
            statuses, _ = await process.communicate()
        answered = statuses.decode().split()
        assert answered, block
        assert all(status.startswith("2") for status in answered), (answered, block)
