"""Three processes of one name, killed every few seconds: a thousand seconds, each exactly once."""

import asyncio
import os
import random
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from conftest import Api, app_dsn, eventually, owner_dsn
from postdate.database.embedded import Embedded
from support.schedule import create

pytestmark = pytest.mark.soak

TICKS = int(os.environ.get("POSTDATE_TEST_TICKS", "1000"))
NODES = 3
COMMAND = Path(sys.executable).with_name("postdate")


async def _start(server: Embedded, name: str, place: Path) -> asyncio.subprocess.Process:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ |= {
        "POSTDATE_DATABASE_URL": app_dsn(server, name),
        "POSTDATE_OWNER_DATABASE_URL": owner_dsn(server, name),
        "POSTDATE_DATA_DIR": str(place),
        "POSTDATE_NODE_NAME": "the-same",
    }
    return await asyncio.create_subprocess_exec(
        COMMAND,
        "serve",
        "--role",
        "worker",
        env=environ,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )


async def _until_handled(api: Api, schedule_id: str, last: datetime, seconds: float) -> None:
    async def handled() -> bool:
        at: datetime = await api.node.database.writer.fetchval(
            "SELECT handled FROM schedule WHERE schedule_id = $1", schedule_id
        )
        return at >= last

    await eventually(handled, seconds, 0.2)


async def test_every_second_fires_once(api: Api, server: Embedded, database_name: str) -> None:
    # On a busy machine a node may take seconds to come up: what is late then still fires.
    made = await create(api, every_seconds=1, misfire={"policy": "fire_all", "per_minute": 6000})
    schedule_id = made["schedule_id"]
    database = api.node.database.writer
    first: datetime = await database.fetchval("SELECT clock()")
    last = first + timedelta(seconds=TICKS)
    draw, kills = random.Random(3), 0
    with tempfile.TemporaryDirectory(prefix="pdt-soak-") as place:
        nodes = [await _start(server, database_name, Path(place)) for _ in range(NODES)]
        deadline = time.monotonic() + TICKS
        while (left := deadline - time.monotonic()) > 0:
            # The longest a kill is waited for; the schedule goes on meanwhile.
            pause = min(left, draw.uniform(2, 6))
            done, _ = await asyncio.wait(
                {asyncio.create_task(n.wait()) for n in nodes},
                timeout=pause,
                return_when=asyncio.FIRST_COMPLETED,
            )
            assert not done, "a node ended by itself"
            place_in_row = draw.randrange(NODES)
            nodes[place_in_row].kill()
            await nodes[place_in_row].wait()
            kills += 1
            nodes[place_in_row] = await _start(server, database_name, Path(place))
        await _until_handled(api, schedule_id, last, 60)
        for node in nodes:
            node.terminate()
            await node.wait()
    rows = await database.fetch(
        "SELECT scheduled_for, status, subject FROM occurrence WHERE schedule_id = $1 ORDER BY 1",
        schedule_id,
    )
    jobs = await database.fetch("SELECT due_at FROM job WHERE schedule_id = $1", schedule_id)
    assert kills > TICKS / 10
    ticks = [first.replace(microsecond=0) + timedelta(seconds=n + 1) for n in range(len(rows))]
    assert len(rows) >= TICKS
    assert [row["scheduled_for"] for row in rows] == ticks
    assert set(Counter(job["due_at"] for job in jobs).values()) == {1}
    assert {job["due_at"] for job in jobs} == {row["scheduled_for"] for row in rows if row[2]}
    assert {row["status"] for row in rows} <= {"FIRED", "LATE"}
