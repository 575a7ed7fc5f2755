"""`postdate events verify` as its operator runs it."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from conftest import eventually, scratch
from postdate.publisher.anchor import AnchorFile, AnchorLine, collect
from support.serve_process import COMMAND, Served


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        one = Served(directory / "data")
        yield one
        if one.process and one.process.returncode is None:
            await one.stop()


async def verify(served: Served, *arguments: str) -> tuple[int, Any, str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    process = await asyncio.create_subprocess_exec(
        COMMAND, "events", "verify", "--json", *arguments,
        env=environ | {"POSTDATE_DATA_DIR": str(served.directory)},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, msgspec.json.decode(out) if out else None, said.decode()


EVENTS = 7
"""The first tenant, its key, and five accounts."""


async def test_what_was_anchored_must_be_there(served: Served) -> None:
    await served.start()
    await served.ready()
    made = [
        await served.send("POST", "/api/v1/accounts", served.key, {"account_id": f"a{n}"})
        for n in range(5)
    ]
    assert made == [201] * 5

    async def sealed() -> bool:
        _, body = await served.get("/api/v1/events", served.key)
        return isinstance(body, dict) and len(body["events"]) == EVENTS

    assert await eventually(sealed)
    await served.stop()
    file = AnchorFile(served.directory / "anchor.jsonl")
    anchored = {tenant_id: known.last for tenant_id, known in collect(file.lines()).items()}
    [(tenant_id, last)] = anchored.items()
    assert last is not None, "the ends of the chains are anchored when the server stops"
    assert last[0] == EVENTS
    await served.start()
    await served.ready()
    code, report, _ = await verify(served)
    assert (code, report["ok"], report["links"]) == (0, True, EVENTS)
    assert report["anchored"] >= 1
    await lie(served, file, tenant_id, last[1])


async def lie(served: Served, file: AnchorFile, tenant_id: int, digest: str) -> None:
    """An anchor that knows more than the database: its tail was cut off."""
    file.append(AnchorLine(datetime.now(UTC), [(tenant_id, EVENTS + 3, digest)]))
    code, report, _ = await verify(served, "--anchor", str(file.path))
    assert code == 7
    [finding] = report["findings"]
    assert (finding["tenant_id"], finding["position"]) == (tenant_id, EVENTS + 1)
    assert finding["kind"] == "cut_off"
    code, _, said = await verify(served, "--anchor", str(served.directory / "nowhere"))
    assert code == 1
    assert "nowhere cannot be read" in said
