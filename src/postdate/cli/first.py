"""The first start: a tenant, an admin key, and a message that tells what to do next."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from postdate.cli.settings import Settings
from postdate.intake.tenant import Tenants
from postdate.model.errors import Code, RefusedError, StartError
from postdate.model.identity import Scope

log = structlog.get_logger()

TENANT: Final = "default"
KEY_FILE: Final = "admin.key"

WELCOME: Final = """\
Postdate is ready.

  console   {url}/
  API docs  {url}/docs
  admin key {key}

The key is shown only now; it is kept in {file}.
Two accounts, some money, and a payment due in ten seconds:

  post() {{ curl -s {url}/api/v1/$1 -H "Authorization: Bearer {key}" \\
           -H "Idempotency-Key: $2" -H "Content-Type: application/json" -d "$3"; echo; }}
  post accounts a '{{"account_id": "alice"}}'; post accounts b '{{"account_id": "bob"}}'
  post accounts/alice/adjustments seed '{{"amount": 10000, "reason": "opening balance"}}'
  post payments/schedule rent-1 '{{"from_account_id": "alice", "to_account_id": "bob",
    "amount": 2500, "delay_seconds": 10}}'
"""


async def ensure_tenant(tenants: Tenants) -> None:
    """Make sure that the first tenant exists."""
    try:
        await tenants.create(TENANT)
    except RefusedError as error:
        if error.refusal.code is not Code.CONFLICT:
            raise


async def ensure_key(tenants: Tenants, settings: Settings) -> str | None:
    """Make sure that there is an admin key; give it when it was made just now."""
    await ensure_tenant(tenants)
    if settings.admin_key:
        await _bring(tenants, settings.admin_key)
        return None
    file = settings.data_dir / KEY_FILE
    if file.exists():
        await _bring(tenants, read_key(file))
        return None
    issued = await tenants.issue(TENANT, [Scope.ADMIN], note="first start")
    _write_key(file, issued.key)
    return issued.key


async def _bring(tenants: Tenants, key: str) -> None:
    try:
        await tenants.issue(TENANT, [Scope.ADMIN], note="given at start", given=key)
    except RefusedError as error:
        raise StartError(f"POSTDATE_ADMIN_KEY cannot be used: {error.refusal.detail}") from error


def read_key(file: Path) -> str:
    """Read the admin key that the first start left."""
    try:
        return file.read_text().strip()
    except OSError as error:
        raise StartError(f"{file} cannot be read ({error.strerror}): run as its owner") from error


def _write_key(file: Path, key: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise StartError(
            f"the admin key cannot be kept in {file} ({error.strerror}): make the directory "
            "writable, or set POSTDATE_ADMIN_KEY"
        ) from error
    with os.fdopen(descriptor, "w") as handle:
        handle.write(key + "\n")
        handle.flush()
        with suppress(OSError):
            os.fsync(handle.fileno())


def welcome(url: str, key: str, settings: Settings) -> str:
    """Write the message of the first start."""
    return WELCOME.format(url=url, key=key, file=settings.data_dir / KEY_FILE)
