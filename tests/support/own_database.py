"""Which modules need a database of their own, and what the others must leave as it was."""

from pathlib import Path
from typing import Any, Final

import pytest

from postdate.database.connection.database import Database

TESTS: Final = Path(__file__).parents[1]
# Faults hit whole databases, and a station works for every tenant.
FOLDERS: Final = {"faults", "stations"}
# A test that asks for one of these changes what every tenant of its database sees.
FIXTURES: Final = {"clock", "database_name", "module_database"}
MODULES: Final[set[Path]] = set()
"""The modules of this run that need a database of their own."""
LEFT_BEHIND: Final = "settings or nodes were left behind: mark the module own_database"
COMMON_STATE: Final = """
SELECT 'setting' AS what, name, value::text FROM postdate.setting WHERE tenant_id = 0
UNION ALL SELECT 'node', node_id::text, '' FROM postdate.node
UNION ALL SELECT 'shift', shift::text, '' FROM public.clock_shift
 ORDER BY 1, 2, 3
"""


def notice(item: pytest.Item) -> None:
    """Record the module of a test that can see or disturb other tenants."""
    if isinstance(item, pytest.Function) and (
        item.path.relative_to(TESTS).parts[0] in FOLDERS
        or item.get_closest_marker("own_database") is not None
        or FIXTURES & set(item.fixturenames)
    ):
        MODULES.add(item.path)


async def common_state(database: Database) -> list[tuple[Any, ...]]:
    """Read what all tenants of a database share."""
    return [tuple(row) for row in await database.writer.fetch(COMMON_STATE)]
