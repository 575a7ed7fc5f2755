"""The README's commands are run as they stand, on another port and with shorter waits."""

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from conftest import scratch
from postdate.node.initial_key import welcome_message
from postdate.node.settings import ProcessSettings
from support.serve_process import COMMAND, Served

README = Path(__file__).parents[2] / "README.md"

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="no curl on this machine")


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        one = Served(directory / ".postdate")
        await one.start()
        try:
            await one.ready()
            yield one
        finally:
            await one.stop()


async def run(script: str, directory: Path) -> list[dict[str, object]]:
    """Run shell commands and decode each line that they print."""
    process = await asyncio.create_subprocess_exec(
        "bash", "-euc", script, cwd=directory, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(30):
        out, _ = await process.communicate()
    assert process.returncode == 0
    return [msgspec.json.decode(line) for line in out.splitlines() if line.strip()]


async def test_the_readme_s_payment_is_held_and_then_paid(served: Served) -> None:
    text = README.read_text().partition("## A payment")[2].partition("## A webhook")[0]
    script = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
    script = script.replace("localhost:8080", f"127.0.0.1:{served.port}")
    script = script.replace('"delay_seconds": 10', '"delay_seconds": 2')
    script = script.replace("sleep 11", "sleep 4")
    *_, scheduled, alice, bob, payments = await run(script, served.directory.parent)
    assert scheduled["status"] == "PENDING"
    assert (alice["balance"], alice["held"], alice["available"]) == (10000, 2500, 7500)
    assert bob["balance"] == 2500
    (payment,) = msgspec.convert(payments["payments"], list[dict[str, object]])
    assert payment["status"] == "COMPLETED"
    assert isinstance(payment["lateness_ms"], int)


async def test_the_readme_s_python_is_scheduled_and_cancelled(served: Served) -> None:
    script, task = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    known = {"POSTDATE_URL": f"http://127.0.0.1:{served.port}", "POSTDATE_API_KEY": served.key}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", f"{script}\n{task}\nprint(payment.status)",
        env=os.environ | known, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(30):
        out, _ = await process.communicate()
    assert (process.returncode, out) == (0, b"PENDING\n")


async def jobs_of_the_lane(served: Served) -> set[str]:
    _, found = await served.get("/api/v1/jobs?lane=mail", served.key)
    return {job["job_id"] for job in msgspec.convert(found, dict[str, Any])["jobs"]}


async def test_the_readme_s_sql_schedules_a_job(served: Served) -> None:
    [script] = re.findall(r"```sql\n(.*?)```", README.read_text(), re.DOTALL)
    environ = os.environ | {"POSTDATE_DATA_DIR": str(served.directory)}
    process = await asyncio.create_subprocess_exec(
        COMMAND, "role", "create", "shop", "--tenant", "default", "--json",
        cwd=served.directory.parent, env=environ, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(30):
        out, _ = await process.communicate()
    connection = await asyncpg.connect(msgspec.json.decode(out)["dsn"])
    await connection.execute("CREATE TABLE orders (id text)")
    before = await jobs_of_the_lane(served)
    await connection.execute(script)
    await connection.close()
    assert len(await jobs_of_the_lane(served) - before) == 1


@pytest.mark.parametrize("shown", [True, False])
async def test_the_first_message_s_commands_work(served: Served, *, shown: bool) -> None:
    settings = ProcessSettings(data_dir=served.directory)
    key = served.key if shown else None
    message = welcome_message(f"http://127.0.0.1:{served.port}", key, settings)
    assert message.count(served.key) == int(shown)
    script = message.partition("ten seconds:")[2].replace("rent-1", f"rent-{shown}")
    *_, scheduled = await run(script, served.directory.parent)
    assert scheduled["status"] == "PENDING"
