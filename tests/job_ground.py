"""An intake of jobs without HTTP, for tests."""

from typing import Any

import msgspec

from postdate.intake.job import JobIntake, Named
from postdate.intake.job_batch import Ask
from postdate.intake.lane import Lanes
from postdate.model.errors import Refusal
from postdate.model.job import JobSpec
from postdate.model.setting import Settings
from postdate.store.database import Database
from postdate.store.lane import LaneDirectory


async def any_name(_: object) -> dict[Named, Refusal]:
    """Let every named destination pass."""
    return {}


def make_intake(database: Database, lanes: LaneDirectory | None = None, **parts: Any) -> JobIntake:
    settings = parts.pop("settings", Settings())
    directory = lanes or LaneDirectory(database)
    parts = {"allowed": (), "check_names": any_name, **parts}
    return JobIntake(database, Lanes(database, directory, settings), settings, **parts)


def ask(tenant_id: int, key: str | None = None, **members: Any) -> Ask:
    body = msgspec.json.encode({"destination": {"type": "worker"}, **members})
    spec = msgspec.json.decode(body, type=JobSpec)
    return Ask(tenant_id=tenant_id, spec=spec, actor="test", key=key)
