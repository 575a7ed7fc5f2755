"""What `postdate doctor` examines: each check says what it found, and what to do about it."""

import os
import resource
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from postdate.client import Client
from postdate.client.models import WorkerDestination
from postdate.client.problems import ForbiddenError
from postdate.words.client_file import FILE

MIN_FREE_BYTES: Final = 1024**3
MIN_OPEN_FILES: Final = 1024
MAX_CLOCK_SECONDS: Final = 5.0
WAITING_SECONDS: Final = 30.0
"""How long a due job may wait for a worker before that is a finding."""
MAX_LISTED: Final = 100
PRIVATE_MODE: Final = 0o077

State = Literal["ok", "note", "wrong"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the diagnosis."""

    check: str
    state: State
    found: str
    do: str = ""


def machine(data_dir: Path) -> Iterator[Finding]:
    """Examine the disk and the limits of this machine."""
    beside = next(
        each for each in (data_dir.absolute(), *data_dir.absolute().parents) if each.exists()
    )
    free = shutil.disk_usage(beside).free
    room = f"{free / MIN_FREE_BYTES:.1f} GiB free at {beside}"
    if free < MIN_FREE_BYTES:
        yield Finding(check="machine", state="wrong", found=room, do="make room on that disk")
    else:
        yield Finding(check="machine", state="ok", found=room)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MIN_OPEN_FILES:
        found = f"a process may have {soft} files open"
        yield Finding(check="machine", state="note", found=found, do="raise it: ulimit -n 4096")


def data_directory(data_dir: Path) -> Iterator[Finding]:
    """Examine who may read the data directory, which has keys and the database."""
    if not data_dir.exists():
        return
    file = data_dir / FILE
    if file.exists() and file.stat().st_mode & PRIVATE_MODE:
        found, do = f"others may read {file}", f"chmod 600 {file}"
        yield Finding(check="data directory", state="wrong", found=found, do=do)
    elif not os.access(data_dir, os.R_OK | os.X_OK):
        found = f"{data_dir} belongs to another user"
        yield Finding(check="data directory", state="note", found=found, do="run as that user")
    else:
        yield Finding(check="data directory", state="ok", found=str(data_dir))


def readiness(health: dict[str, Any]) -> Iterator[Finding]:
    """Examine what the server says of its own parts, the database among them."""
    for part in health["reasons"]:
        found = f"{part['name']}: {part['reason']}"
        yield Finding(check="server", state="wrong", found=found, do="see docs/operate/runbooks")
    for part in health["degraded"]:
        found = f"{part['name']}: {part['reason']}"
        yield Finding(check="server", state="note", found=found, do="see docs/operate/runbooks")
    if health["overdue"]:
        late = msgspec.json.encode(health["overdue"]).decode()
        do = "see docs/operate/runbooks/overdue.md"
        yield Finding(check="server", state="note", found=f"overdue: {late}", do=do)
    if health["ready"]:
        yield Finding(check="server", state="ok", found="ready, database included")


def clock(server_time: datetime | None, here: datetime) -> Iterator[Finding]:
    """Compare the clock of this machine with that of the server."""
    if server_time is None:
        return
    apart = abs((server_time - here).total_seconds())
    if apart <= MAX_CLOCK_SECONDS:
        yield Finding(check="clock", state="ok", found="as that of the server")
        return
    found = f"this machine and the server are {apart:.0f} s apart"
    do = "synchronise both (chrony, systemd-timesyncd); what runs when is decided by the database"
    yield Finding(check="clock", state="wrong", found=found, do=do)


def workers(client: Client, now: datetime) -> Iterator[Finding]:
    """Find lanes whose jobs are due and that no worker serves."""
    lanes = client.lanes.list_page(limit=MAX_LISTED).lanes
    for lane in lanes:
        if lane.paused and (lane.ready or lane.pending):
            found = f"lane {lane.lane} is paused: {lane.paused_note or 'no reason was given'}"
            do = f"postdate lane resume {lane.lane}"
            yield Finding(check="worker", state="note", found=found, do=do)
        elif lane.ready and not lane.running and _is_left(client, lane.lane, now):
            count = f"{lane.ready:,}{' or more' if lane.counts_capped else ''}"
            found = f"{count} jobs of lane {lane.lane} are due, and no worker takes them"
            do = "start one: postdate worker MODULE:APP, or manage.py postdate_worker"
            yield Finding(check="worker", state="wrong", found=found, do=do)
    if not lanes:
        yield Finding(check="worker", state="ok", found="no lane has a job yet")


def _is_left(client: Client, lane: str, now: datetime) -> bool:
    """Return whether the first due job of a lane waits for a worker, and has waited for long."""
    [*waiting] = client.jobs.list_page(status="READY", lane=lane, limit=1).jobs
    return any(
        isinstance(job.destination, WorkerDestination)
        and now - job.effective_at > timedelta(seconds=WAITING_SECONDS)
        for job in waiting
    )


def webhooks(client: Client) -> Iterator[Finding]:
    """Find destinations that are not delivered to."""
    for each in client.destinations.list_page(limit=MAX_LISTED).destinations:
        match str(each.status):
            case "FAILING":
                found = f"no call of {each.name} has succeeded since {each.failing_since}"
                yield Finding(check="webhook", state="wrong", found=found,
                              do=f"postdate destination test {each.name}")  # fmt: skip
            case "DEGRADED":
                found = f"some of the latest calls of {each.name} failed"
                yield Finding(check="webhook", state="note", found=found,
                              do=f"postdate destination test {each.name}")  # fmt: skip
            case "DISABLED":
                found = f"{each.name} is disabled: {each.disabled_reason}"
                yield Finding(check="webhook", state="wrong", found=found,
                              do=f"postdate destination enable {each.name}")  # fmt: skip
            case "PAUSED":
                found = f"{each.name} is paused: {each.paused_reason}"
                yield Finding(check="webhook", state="note", found=found,
                              do=f"postdate destination resume {each.name}")  # fmt: skip


def dead_letters(client: Client) -> Iterator[Finding]:
    """Say whether jobs have failed for good."""
    page = client.dead_letters.list_page(limit=MAX_LISTED)
    if page.jobs:
        count = f"{len(page.jobs)}{' or more' if page.next_cursor else ''}"
        found = f"{count} jobs have failed for good, the last by {page.jobs[0].code}"
        yield Finding(
            check="dead letters", state="note", found=found, do="postdate dead-letter list"
        )


TENANT_CHECKS: Final[dict[str, Callable[[Client, datetime], Iterator[Finding]]]] = {
    "worker": workers,
    "webhook": lambda client, _: webhooks(client),
    "dead letters": lambda client, _: dead_letters(client),
}
"""What is examined with the key, by name."""


def tenant(client: Client, now: datetime) -> Iterator[Finding]:
    """Examine what the key may see."""
    for name, examine in TENANT_CHECKS.items():
        try:
            found = list(examine(client, now))
        except ForbiddenError as error:
            yield Finding(check=name, state="note", found=f"not examined: {error.detail}")
            continue
        yield from found or [Finding(check=name, state="ok", found="nothing to do")]


def now() -> datetime:
    """Return what the clock of this machine shows."""
    return datetime.now(UTC)
