"""Ask a server for its data directory: the only proof that it serves and is ours."""

import os
from pathlib import Path
from typing import Final

import asyncpg

from postdate.database.embedded.credentials import FILE, Credentials
from postdate.database.embedded.judge import ProbeAnswer
from postdate.words.error import StartError

PATIENCE_SECONDS: Final = 60.0
"""How long one question waits for its answer before it is asked again: on a busy machine, asking
often means that no login ever ends. What a missing answer means is not decided here."""

CUT_OFF: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InterfaceError,
    # What asyncpg raises when the server dies in the middle of a login; no subclass of the others.
    asyncpg.InternalClientError,
)
"""The server died or shuts down; one that answers otherwise has an objection."""

UNANSWERED: Final = (*CUT_OFF, asyncpg.PostgresError)


async def ask(known: Credentials, cluster: Path) -> ProbeAnswer:
    """Connect and compare."""
    try:
        found, recovering = await _state(known)
    except asyncpg.CannotConnectNowError:
        return ProbeAnswer.STARTING
    except asyncpg.InvalidPasswordError:
        raise StartError(
            f"the passwords in {FILE} do not fit {cluster}; restore that file from a backup."
        ) from None
    except asyncpg.PostgresConnectionError:
        return ProbeAnswer.CLOSED
    except asyncpg.PostgresError:
        return ProbeAnswer.REFUSING
    except UNANSWERED:
        return ProbeAnswer.CLOSED
    if not _is_ours(found, cluster):
        raise StartError(f"the server of {found} uses the socket in {known.login.host}; stop it.")
    return ProbeAnswer.STARTING if recovering else ProbeAnswer.READY


async def _state(known: Credentials) -> tuple[str, bool]:
    connection = await asyncpg.connect(
        known.superuser_dsn(), timeout=PATIENCE_SECONDS, command_timeout=PATIENCE_SECONDS
    )
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
