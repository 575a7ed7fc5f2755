"""Suites that speak to a server: JSONTestSuite, the naughty strings, llhttp's requests."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from postdate_lab.chaos.process import Process, free_port, postdate
from postdate_lab.suites.result import SuiteResult, directory

KEY: Final = "an-admin-key-of-the-suites"
READY_SECONDS: Final = 120.0
ANSWER_SECONDS: Final = 5.0
SERVER_ERROR: Final = 500
CLIENT_ERROR: Final = 400
AS_JSON: Final = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}

JSON_REASONS: Final = {
    "U+0000 is refused: PostgreSQL cannot store it (decision 0003)": "null|u0000|NUL|nul",
    "deeper than 32 levels, longer than the limit, or two members of one name: refused by name":
        "depth|duplicat|large",
}  # fmt: skip
STRING_REASONS: Final = {"U+0000 is refused: PostgreSQL cannot store it": "x00|u0000"}
HTTP_REASONS: Final = {
    "another protocol: RTSP, ICE, the preface of HTTP/2, or HTTP/0.9":
        r"RTSP|ICE/|PRI \*|No HTTP version",
    "stricter: a transfer coding other than chunked alone is refused": "last transfer-encoding",
    "no route has it: 404 is answered once, from the head, and the connection closed":
        r"answered \[404\], taken False",
}  # fmt: skip


class Server(NamedTuple):
    """A server of its own."""

    session: aiohttp.ClientSession
    port: int

    @property
    def api(self) -> str:
        """Return where its API begins."""
        return f"http://127.0.0.1:{self.port}/api/v1"


ServerSuite = Callable[[Server], Awaitable[SuiteResult]]


@asynccontextmanager
async def serving(home: Path) -> AsyncIterator[Server]:
    """Start a server with a database of its own."""
    port = free_port()
    env = {
        "POSTDATE_DATA_DIR": str(home / "data"), "POSTDATE_PORT": str(port),
        "POSTDATE_ADMIN_KEY": KEY,
    }  # fmt: skip
    process = Process("server", postdate("serve"), home / "server.log", env)
    await process.keep()
    try:
        async with aiohttp.ClientSession() as session:
            await _until_ready(session, port)
            yield Server(session, port)
    finally:
        await process.end()


async def _until_ready(session: aiohttp.ClientSession, port: int) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if answer.ok:
                        return
            except (aiohttp.ClientError, OSError):
                pass
            await asyncio.sleep(0.2)


async def json_texts(server: Server) -> SuiteResult:
    """Send every text of JSONTestSuite as the payload of a job."""
    place = directory("JSONTestSuite") / "test_parsing"
    result = SuiteResult(name="JSONTestSuite", source="JSONTestSuite, test_parsing, as payload")
    for path in sorted(place.glob("*.json")):
        body = b'{"destination":{"type":"worker"},"payload":' + path.read_bytes() + b"}"
        async with server.session.post(f"{server.api}/jobs", data=body, headers=AS_JSON) as answer:
            said = f"{answer.status} {(await answer.text())[:120]}"
            result.add(path.name, _judged(path.name, answer.status, said), JSON_REASONS)
    return result


def _judged(name: str, status: int, said: str) -> str:
    """Say what is wrong: `y_` must be taken, `n_` refused, `i_` may be either."""
    right = {"y": status < CLIENT_ERROR, "n": CLIENT_ERROR <= status < SERVER_ERROR}
    return "" if right.get(name[0], status < SERVER_ERROR) else said


async def strings(server: Server) -> SuiteResult:
    """Send every naughty string as payload and metadata, and read it back."""
    found = json.loads((directory("big-list-of-naughty-strings") / "blns.json").read_text())
    result = SuiteResult(name="naughty strings", source="big-list-of-naughty-strings, blns.json")
    for number, text in enumerate(found):
        job = {"destination": {"type": "worker"}, "payload": text, "metadata": {"text": text}}
        async with server.session.post(f"{server.api}/jobs", json=job, headers=AS_JSON) as answer:
            made = await answer.json()
        differs = f"{answer.status} {made}"[:200] if answer.status >= CLIENT_ERROR else ""
        result.add(
            f"{number} {text!r}", differs or await _read(server, made["job_id"], job),
            STRING_REASONS,
        )  # fmt: skip
    return result


async def _read(server: Server, job_id: str, sent: dict[str, Any]) -> str:
    async with server.session.get(f"{server.api}/jobs/{job_id}", headers=AS_JSON) as answer:
        shown = await answer.json()
    lost = [name for name in ("payload", "metadata") if shown.get(name) != sent[name]]
    return f"{', '.join(lost)} came back changed" if lost else ""


class RawCase(NamedTuple):
    """A request of llhttp's suite, and whether its parser takes it."""

    title: str
    sent: bytes
    taken: bool


async def requests(server: Server) -> SuiteResult:
    """Send every request of llhttp's strict cases as raw bytes."""
    place = directory("llhttp") / "test" / "request"
    result = SuiteResult(name="llhttp requests", source="llhttp, test/request")
    for path in sorted(place.glob("*.md")):
        for case in _cases(path.read_text()):
            statuses = await _statuses(server.port, case.sent)
            refused = CLIENT_ERROR in statuses or not statuses
            right = refused is not case.taken and max(statuses, default=0) < SERVER_ERROR
            differs = f"{case.sent[:80]!r} answered {statuses}, taken {case.taken}"
            differs = "" if right else differs
            result.add(f"{path.stem}: {case.title}", differs, HTTP_REASONS)
    return result


_CASE: Final = re.compile(
    r"^#+ (?P<title>[^\n]+)\n(?:(?!^#+ ).)*?<!-- meta=(?P<meta>\{[^\n]*?\}) -->\n"
    r"```http\n(?P<http>.*?)```\n+```log\n(?P<log>.*?)```",
    re.MULTILINE | re.DOTALL,
)


def _cases(text: str) -> Iterator[RawCase]:
    for found in _CASE.finditer(text):
        meta = json.loads(found["meta"])
        if meta.get("type") == "request":
            yield RawCase(found["title"], _with_host(_bytes(found["http"])), _takes(found["log"]))


def _takes(log: str) -> bool:
    """Return whether the parser takes a request: a pause for an upgrade is no refusal."""
    return "error" not in log or "Pause" in log


def _bytes(text: str) -> bytes:
    """Return the bytes that a block of the suite stands for, by the rules of its own reader."""
    text = text.removesuffix("\n")
    text = re.sub(r"\\\n", "", text).replace("\n", "\r\n")
    for escape, value in (("r", "\r"), ("n", "\n"), ("t", "\t"), ("f", "\f")):
        text = text.replace(f"\\{escape}", value)
    text = re.sub(r"\\x([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), text)
    return text.encode("latin-1", "replace")


def _with_host(sent: bytes) -> bytes:
    """Add the Host that HTTP/1.1 demands: a parser alone does not ask for it."""
    begins = sent.lstrip(b"\r\n")
    head, separator, rest = begins.partition(b"\r\n")
    if not head.endswith(b"HTTP/1.1") or re.search(rb"(?im)^host\s*:", rest):
        return sent
    empty = sent[: len(sent) - len(begins)]
    return empty + head + separator + b"Host: a\r\n" + rest


async def _statuses(port: int, sent: bytes) -> list[int]:
    """Return the status of each answer until the server closes; none where it only closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = b""
    try:
        writer.write(sent)
        writer.write_eof()
        async with asyncio.timeout(ANSWER_SECONDS):
            data = await reader.read(-1)
    except (TimeoutError, OSError):
        return [0]
    finally:
        writer.close()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", data)]
