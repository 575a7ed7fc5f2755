"""The database's clock leaps ahead for seconds: nothing is early, ends, expires or is moved."""

from pathlib import Path

import pytest

from conftest import Clock, app_dsn
from postdate.database.connection import opening
from postdate.database.embedded import Embedded
from support.clock_leap import leap_changes_nothing, running_node
from support.receiver import Receiver


@pytest.mark.parametrize("seconds", [2 * 3600, 60 * 86400])
async def test_a_leap_of_the_databases_clock_does_nothing(
    server: Embedded, database_name: str, clock: Clock, receiver: Receiver, tmp_path: Path,
    seconds: int,
) -> None:  # fmt: skip
    opened = await opening.connect(app_dsn(server, database_name), writers=8, readers=4)
    try:
        async with running_node(opened, receiver, tmp_path) as running:
            await leap_changes_nothing(running, receiver, clock.set, seconds)
    finally:
        await clock.set(0)
        await opened.close()
