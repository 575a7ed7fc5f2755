"""The blocks of the guide to your own transaction are run as they stand, on a real server."""

import asyncio
import contextlib
import io
import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import pytest

from conftest import Api, admin
from postdate.client import Client
from postdate.database.connection.database import Database
from postdate.database.embedded import Embedded
from support.api_ledger import open_ledger
from support.own_transaction import PASSWORD, own_role

GUIDE = Path(__file__).parents[2] / "docs/guides/your-transaction.md"
BLOCK = re.compile(r"^```(sql|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def run(block: str, known: dict[str, Any]) -> str:
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        exec(block, known)
    return told.getvalue()


async def test_the_guide_does_what_it_says(
    api: Api,
    server: Embedded,
    database_name: str,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ledger = await open_ledger(api)
    body = {"amount": 9000, "reason": "more"}
    await api.call("POST", "/accounts/alice/adjustments", body, headers={"Idempotency-Key": "m"})
    monkeypatch.setenv("POSTDATE_URL", api.url)
    monkeypatch.setenv("POSTDATE_API_KEY", api.key)
    monkeypatch.chdir(tmp_path)
    (_, set_up), *blocks = BLOCK.findall(GUIDE.read_text())
    await admin(server, f"REVOKE ALL ON DATABASE {database_name} FROM PUBLIC", database_name)
    async with own_role(server, database_name, database, api.tenant) as role:
        grants = set_up[set_up.index("GRANT") :].replace(
            "DATABASE postdate", "DATABASE " + database_name
        )
        await admin(server, grants.replace("shop", role.name), database_name)
        async with role.connect() as connection:
            await connection.execute(blocks[0][1])
        assert await ledger.held() == 2500
        known: dict[str, Any] = {
            "psycopg": psycopg,
            "sqlite3": sqlite3,
            "json": json,
            "Client": Client,
        }
        dsn = psycopg.conninfo.make_conninfo(role.dsn, user=role.name, password=PASSWORD)
        known["dsn"] = dsn
        told = await asyncio.to_thread(run, blocks[1][1], known)
        assert told == "insufficient_funds amount 7500\n"
        await asyncio.to_thread(run, blocks[2][1] + "shop.close()\n", known)
        await admin(server, f"DROP OWNED BY {role.name} CASCADE", database_name)
    jobs = (await api.call("GET", "/jobs?lane=mail")).body["jobs"]
    assert len(jobs) == 3
