"""Ask a server for its data directory: the only proof that it serves and is ours."""

import asyncio
import os
from enum import Enum, auto
from pathlib import Path
from typing import Final

import asyncpg

from postdate.model.error import StartError
from postdate.store.embedded.credentials import FILE, Credentials

PROBE_SECONDS: Final = 2.0
UNANSWERED: Final = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    # What asyncpg raises when the server dies in the middle of a login; no subclass of the others.
    asyncpg.InternalClientError,
)


class ProbeAnswer(Enum):
    """What a server says."""

    READY = auto()
    STARTING = auto()
    SILENT = auto()
    CLOSED = auto()


async def ask(known: Credentials, cluster: Path) -> ProbeAnswer:
    """Connect and compare."""
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            found, recovering = await _state(known)
    except asyncpg.CannotConnectNowError:
        return ProbeAnswer.STARTING
    except asyncpg.InvalidPasswordError:
        raise StartError(
            f"the passwords in {FILE} do not fit {cluster}; restore that file from a backup."
        ) from None
    except (ConnectionError, FileNotFoundError):
        return ProbeAnswer.CLOSED
    except UNANSWERED:
        return ProbeAnswer.SILENT
    if not _is_ours(found, cluster):
        raise StartError(f"the server of {found} uses the socket in {known.login.host}; stop it.")
    return ProbeAnswer.STARTING if recovering else ProbeAnswer.READY


async def _state(known: Credentials) -> tuple[str, bool]:
    connection = await asyncpg.connect(known.superuser_dsn(), timeout=PROBE_SECONDS)
    try:
        # One that recovers from an archive answers reads long before it can be written.
        row = await connection.fetchrow(
            "SELECT current_setting('data_directory'), pg_is_in_recovery()"
        )
    finally:
        await connection.close(timeout=1)
    return (row[0], row[1]) if row else ("", False)


def _is_ours(found: str, cluster: Path) -> bool:
    return os.path.realpath(found) == os.path.realpath(cluster)
