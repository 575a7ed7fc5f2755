"""Nodes are restarted and upgraded one by one behind a balancer: no request fails."""

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import aiohttp
import asyncpg
import pytest

from conftest import app_dsn, eventually, owner_dsn
from postdate.database.embedded import Embedded
from support.balancer import Balancer
from support.receiver import Receiver
from support.serve_process import Served
from support.steady_load import ACCOUNTS, FUNDS, SteadyLoad

pytestmark = pytest.mark.soak

PROJECT: Final = Path(__file__).parents[2]
OLD: Final = os.environ.get("POSTDATE_TEST_OLD_VERSION", "HEAD~1")
"""The version to upgrade from: a commit whose tables are those of today."""

KEY: Final = "pdk_rolling_" + "a" * 40
GRACE: Final = {"POSTDATE_DRAIN_GRACE_SECONDS": "2"}
RUN: Final = "from postdate.cli.main import main; main()"


@dataclass
class Deployment:
    """Two nodes with every role behind a balancer, and the program of the version before."""

    nodes: list[Served]
    balancer: Balancer
    receiver: Receiver
    old: Path
    dsn: str

    async def roll(self, command: Path | None = None) -> None:
        """Restart the nodes one after the other, with another program if one is given."""
        for node in self.nodes:
            assert await node.stop() == 0
            node.command = command or node.command
            node.env |= GRACE if command else {}
            await node.start()
            await node.ready(120)
            # As a rolling update does: the next one goes when this one is in again.
            await eventually(partial(self.balancer.sees_ready, node.url), 60)


@pytest.fixture(scope="module")
def old_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a command that runs the version before this one."""
    home = tmp_path_factory.mktemp("old")
    packed = subprocess.run(
        ["git", "archive", OLD, "src"], cwd=PROJECT, check=False, capture_output=True
    )
    if packed.returncode:
        pytest.skip(f"there is no version {OLD} to upgrade from")
    subprocess.run(["tar", "x", "-C", str(home)], input=packed.stdout, check=True)
    static = "src/postdate/console/static"
    shutil.copytree(PROJECT / static, home / static, dirs_exist_ok=True)
    command = home / "postdate"
    command.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(home / 'src')!r})\n{RUN}\n"
    )
    command.chmod(0o755)
    return command


@pytest.fixture(scope="module")
async def deployment(
    server: Embedded,
    database_name: str,
    old_version: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Deployment]:
    env = {
        "POSTDATE_DATABASE_URL": app_dsn(server, database_name),
        "POSTDATE_OWNER_DATABASE_URL": owner_dsn(server, database_name),
        "POSTDATE_SECRET_KEY": "5e" * 32,
        "POSTDATE_ADMIN_KEY": KEY,
        "POSTDATE_ALLOW_PRIVATE_TARGETS": "127.0.0.0/8",
        "POSTDATE_TRUSTED_PROXIES": "127.0.0.1/32",
    }
    if "drain_grace" in (old_version.parent / "src/postdate/node/settings.py").read_text():
        env |= GRACE
    nodes = []
    for name in ("first", "second"):
        directory = tmp_path_factory.mktemp(name) / "data"
        directory.mkdir()
        nodes.append(Served(directory, env=dict(env), command=old_version))
    for node in nodes:
        await node.start()
        await node.ready()
    async with Receiver() as receiver, Balancer([node.url for node in nodes]) as balancer:
        yield Deployment(nodes, balancer, receiver, old_version, env["POSTDATE_DATABASE_URL"])
    for node in nodes:
        await node.stop()


async def test_no_request_fails_while_nodes_are_restarted_and_upgraded(
    deployment: Deployment,
) -> None:
    load = SteadyLoad([deployment.balancer.url], KEY, deployment.receiver.url("/job"))
    await load.open_accounts()
    balancer = deployment.balancer
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as browser:
        form = {"key": KEY, "next": "/"}
        headers = {"origin": balancer.url}
        async with browser.post(f"{balancer.url}/login", data=form, headers=headers) as page:
            assert page.status == 200
        async with load.running(singles=6, batches=1):
            await deployment.roll()
            before = dict(balancer.served)
            await deployment.roll(Served.command)
            async with browser.get(f"{balancer.url}/jobs", allow_redirects=False) as page:
                assert page.status == 200
    await load.close()
    print("\n".join(balancer.failed))
    print(f"\n{len(load.acknowledged)} acknowledged, {balancer.served} requests, {before} before")
    assert balancer.failed == []
    assert load.unanswered == 0
    assert {status for _, _, status in load.reads} == {200}
    await _all_ended(deployment, load)


async def _all_ended(deployment: Deployment, load: SteadyLoad) -> None:
    """Each payment moved its amount once, and each job arrived once: a drain repeats nothing."""
    connection = await asyncpg.connect(
        deployment.dsn, server_settings={"search_path": "postdate", "role": "postdate_writer"}
    )

    async def ended() -> bool:
        statement = "SELECT count(*) FROM timer WHERE lane_id NOT IN (1, 2)"
        return bool(await connection.fetchval(statement) == 0)

    await eventually(ended, 120, 0.5)
    moved = await connection.fetch(
        "SELECT left(account_id, 5), sum(balance), sum(held) FROM account "
        "WHERE account_id LIKE 'pay%' GROUP BY 1 ORDER BY 1"
    )
    await connection.close()
    payments = len(load.of_kind("payment"))
    assert [tuple(row) for row in moved] == [
        ("payee", payments, 0),
        ("payer", ACCOUNTS * FUNDS - payments, 0),
    ]
    arrived = [each.headers["webhook-id"] for each in deployment.receiver.arrivals]
    assert sorted(arrived) == sorted(each.subject for each in load.of_kind("job"))
