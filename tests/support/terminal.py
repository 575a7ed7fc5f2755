"""A shell in a directory that looks like a clone, in which a test types what a page says."""

import asyncio
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SECONDS: Final = 120.0
_END: Final = "-- end of what was typed, exit code "
_ENDED: Final = re.compile(rf"{_END}(\d+)\n")
_VARIES: Final = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"\d{4}-\d\d-\d\dT[\d:.]+Z",
)


def make_clone(directory: Path) -> None:
    """Put there what a reader's clone has after `make run`."""
    for name in (".venv", ".tools", "examples"):
        (directory / name).symlink_to(ROOT / name)


def matches(expected: str, printed: str) -> bool:
    """Say whether all lines of a page were printed; ids and instants may differ."""
    plain = printed
    wanted = expected
    for pattern in _VARIES:
        plain, wanted = re.sub(pattern, "…", plain), re.sub(pattern, "…", wanted)
    return all(line in plain for line in wanted.splitlines())


@dataclass
class Terminal:
    """One shell; what programs in the background print arrives in the same stream."""

    process: asyncio.subprocess.Process
    printed: str = ""

    async def type(self, text: str) -> str:
        """Type a text, wait for its end, and return what was printed meanwhile."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{text.rstrip()}\necho '{_END}'$?\n".encode())
        said = ""
        async with asyncio.timeout(SECONDS):
            while not (end := _ENDED.search(said)):
                line = await self.process.stdout.readline()
                assert line, f"the shell ended: {said}"
                said += line.decode()
        assert end[1] == "0", said
        said = said[: end.start()]
        self.printed += said
        return said

    async def type_until(self, text: str, expected: str) -> str:
        """Type a text, and its last line again until what the page shows has been printed."""
        said, deadline = await self.type(text), time.monotonic() + SECONDS
        last = text.rstrip().splitlines()[-1] if "sleep" in text else "true"
        while not matches(expected, said):
            assert time.monotonic() < deadline, f"{expected!r} is not in {said[:2000]!r}"
            said += await self.type(f"sleep 0.2\n{last}")
        return said


@asynccontextmanager
async def opened(directory: Path, **env: str) -> AsyncIterator[Terminal]:
    """Open a shell; it is ended with all that it has started."""
    kept = {
        k: v for k, v in os.environ.items() if not k.startswith(("POSTDATE_", "PYTEST_", "VIRTUAL"))
    }
    process = await asyncio.create_subprocess_exec(
        "bash", cwd=directory, env=kept | env, start_new_session=True,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield Terminal(process)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        await asyncio.wait_for(process.communicate(), SECONDS)
