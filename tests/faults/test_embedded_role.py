"""A program with its own transactions on the embedded database: one command gives it a login."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from conftest import eventually, scratch
from postdate.client import AsyncClient
from support.serve_process import COMMAND, Served

pytestmark = pytest.mark.process

GUIDE = Path(__file__).parents[2] / "docs/guides/your-transaction.md"
SQL = re.compile(r"^## SQL\n\n```sql\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    with scratch() as directory:
        running = Served(directory / "data")
        await running.start()
        await running.ready()
        try:
            yield running
        finally:
            await running.stop()


async def command(served: Served, *words: str, **env: str) -> tuple[int, str, str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("POSTDATE_")}
    environ |= {"POSTDATE_DATA_DIR": str(served.directory), **env}
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *words,
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    return process.returncode or 0, out.decode(), error.decode()


async def test_the_guide_runs_on_the_embedded_database(served: Served) -> None:
    key = (served.directory / "admin.key").read_text().strip()
    async with AsyncClient(served.url, key) as client:
        for name in ("alice", "bob"):
            await client.accounts.create(account_id=name)
        await client.accounts.adjust("alice", amount=9000, reason="opening")
        code, out, error = await command(
            served, "role", "create", "shop", "--tenant", "default", "--json"
        )
        assert code == 0, error
        [block] = SQL.findall(GUIDE.read_text())
        async with await psycopg.AsyncConnection.connect(
            json.loads(out)["dsn"], autocommit=True
        ) as connection:
            await connection.execute(block)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute("SELECT * FROM postdate.account")
        assert (await client.accounts.get("alice")).held == 2500

        async def listed() -> bool:
            # A node learns of a new lane within seconds.
            return [job.status async for job in client.jobs.list(lane="mail")] == ["PENDING"]

        await eventually(listed)


@pytest.mark.parametrize(
    ("words", "env", "code", "said"),
    [
        (("Bad-Name", "--tenant", "default"), {}, 1, "cannot be the name of a role"),
        (("postdate_app", "--tenant", "default"), {}, 1, "cannot be the name of a role"),
        (("other", "--tenant", "nobody"), {}, 3, "There is no tenant nobody"),
        (("other", "--tenant", "default", "--scope", "admin"), {}, 2, "scopes of a role are"),
        (
            ("other", "--tenant", "default"),
            {"POSTDATE_DATABASE_URL": "postgresql://127.0.0.1:1/x"},
            1,
            "postdate tenant bind-role other --tenant default",
        ),
    ],
)
async def test_what_cannot_be_is_said_in_one_sentence(
    served: Served, words: tuple[str, ...], env: dict[str, str], code: int, said: str
) -> None:
    ended, _, error = await command(served, "role", "create", *words, **env)
    assert (ended, said in error) == (code, True), error


async def test_a_role_is_created_once(served: Served) -> None:
    words = ("role", "create", "twice", "--tenant", "default", "--json")
    assert (await command(served, *words))[0] == 0
    code, _, error = await command(served, *words)
    assert (code, "There is a role twice already" in error) == (5, True), error
