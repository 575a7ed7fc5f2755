"""Obstacles: what keeps statements of ours from the tables, read from the catalog."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from postdate.database.connection.database import READER, SCHEMA, WRITER
from postdate.database.connection.error import StorageFullError
from postdate.database.connection.query import Connection, Reader, fetch_all, query

_FACT: Final = ("SELECT", "INSERT")
_STATE: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")

WRITTEN: Final[Mapping[str, tuple[str, ...]]] = {
    "account": _STATE,
    "attempt": _FACT,
    "attempt_log": _STATE,
    "event": _FACT,
    "idempotency": _STATE,
    "job": _FACT,
    "job_progress": _STATE,
    "job_revision": _FACT,
    "job_unique": _STATE,
    "occurrence": _STATE,
    "outbox": _STATE,
    "outcome": _FACT,
    "payment": _FACT,
    "payment_approval": _STATE,
    "schedule": _STATE,
    "schedule_version": _FACT,
    "timer": _STATE,
    "transfer": _FACT,
}
"""The tables that accepting and executing write, and the rights that the writer needs there."""

ASKED: Final = ("api_key", "lane", "tenant", "tenant_halt")
"""The tables that are read before anything is written."""

HALT_LOCK: Final = "halt_lock"
"""The table that accepting something or changing halts locks."""

SHOWN: Final = (
    "account",
    "activity",
    "attempt",
    "attempt_log",
    "calendar",
    "calendar_version",
    "chain",
    "change_set",
    "destination",
    "destination_call",
    "event",
    "job",
    "job_progress",
    "job_revision",
    "lane",
    "occurrence",
    "outbox_lock",
    "outcome",
    "payment",
    "payment_approval",
    "schedule",
    "schedule_version",
    "seal",
    "setting",
    "signing_secret",
    "subscription",
    "timer",
    "transfer",
)
"""The tables that the reader needs for reads on behalf of a tenant."""

UNREAD: Final = frozenset(
    {
        HALT_LOCK,
        "idempotency",
        "job_unique",
        "lane_bucket",
        "lane_key",
        "named_lock",
        "node",
        "outbox",
        "permit",
        "permit_scope",
        "tenant_halt",
    }
)
"""The tables without which reads on behalf of a tenant go on, but not every write."""

UNASKED: Final = frozenset(
    {
        "account_proof",
        "account_repair",
        "audit_run",
        "birthplace",
        "chain_proof",
        "client_request",
        "client_role",
        "client_schema",
        "clock_watch",
        "destination_trouble",
        "function_file",
        "history",
        "job_pruned",
        "migration",
        "proof_round",
        "schedule_tzdata",
        "setting_default",
        "wakeup_channel",
    }
)
"""The tables that no request waits for: what is locked there is named, and stops none."""

KEYS: Final = ("api_key", "tenant")
"""The tables without which no login works."""

EXCLUSIVE: Final = "AccessExclusiveLock"
"""The mode of a lock that keeps readers away, too."""

_RIGHTS: Final = [
    *((WRITER, table, right) for table, rights in WRITTEN.items() for right in rights),
    *((WRITER, table, "SELECT") for table in ASKED),
    (WRITER, HALT_LOCK, "UPDATE"),
    *((READER, table, "SELECT") for table in SHOWN),
]


READ_ONLY: Final = "it is read-only: a standby, or a primary being replaced"
STANDBY: Final = "commits wait for a synchronous standby, and none has confirmed in time"


class Obstacle(msgspec.Struct, frozen=True):
    """A lock (`detail` is its mode), its holder, a missing right, or a read-only server."""

    kind: Literal["read_only", "denied", "lock", "holder"]
    subject: str
    detail: str
    pid: int


class Wait(msgspec.Struct, frozen=True):
    """What a session of this login waits for."""

    kind: str | None
    event: str | None


async def list_all(reader: Reader, seconds: float) -> list[Obstacle]:
    """List what keeps statements of ours from our tables."""
    roles, tables, rights = (list(each) for each in zip(*_RIGHTS, strict=True))
    wanted = roles, tables, rights, SCHEMA
    return await fetch_all(reader, Obstacle, "obstacle_list", *wanted, timeout=seconds)


async def waits_for(connection: Connection, pid: int, seconds: float) -> Wait | None:
    """Return what a session of this login waits for."""
    found = await fetch_all(connection, Wait, "obstacle_waits_for", pid, timeout=seconds)
    return found[0] if found else None


async def session_waits_for(reader: Reader, name: str) -> list[Wait]:
    """Return what the sessions of this name wait for."""
    return await fetch_all(reader, Wait, "obstacle_session_waits_for", name)


async def has_room(connection: Connection) -> bool:
    """Return whether a table can grow, by letting one grow that vanishes again."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(query("obstacle_take_room"))
    except StorageFullError:
        return False
    finally:
        await transaction.rollback()
    return True
