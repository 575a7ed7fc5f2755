"""Create the first tenant and its admin key, and say what to do next."""

from typing import Final

from postdate.core.identity import Scope
from postdate.node.admin_key import KEY_FILE, read_key, write_key
from postdate.node.settings import ProcessSettings
from postdate.tenant.change.tenant import Tenants
from postdate.words.error import Code, RefusedError, StartError

TENANT: Final = "default"

WELCOME: Final = """\
Postdate is ready.

  console   {url}/
  API docs  {url}/docs
  admin key {shown}

{kept}
Two accounts, some money, and a payment due in ten seconds:

  post() {{ curl -s {url}/api/v1/$1 -H "Authorization: Bearer $(cat {file})" \\
           -H "Idempotency-Key: $2" -H "Content-Type: application/json" -d "$3"; echo; }}
  post accounts a '{{"account_id": "alice"}}'; post accounts b '{{"account_id": "bob"}}'
  post accounts/alice/adjustments seed '{{"amount": 10000, "reason": "opening balance"}}'
  post payments/schedule rent-1 '{{"from_account_id": "alice", "to_account_id": "bob",
    "amount": 2500, "delay_seconds": 10}}'
"""


async def ensure_tenant(tenants: Tenants) -> None:
    """Make sure that the first tenant exists; write nothing if it does."""
    if await tenants.exists(TENANT):
        return
    try:
        await tenants.create(TENANT)
    except RefusedError as error:
        if error.refusal.code is not Code.CONFLICT:
            raise


async def ensure_key(tenants: Tenants, settings: ProcessSettings) -> str | None:
    """Make sure that there is an admin key; return it if it is new."""
    await ensure_tenant(tenants)
    if settings.admin_key:
        await _store_admin_key(tenants, settings.admin_key)
        return None
    file = settings.data_dir / KEY_FILE
    if file.exists():
        await _store_admin_key(tenants, read_key(file))
        return None
    issued = await tenants.issue(TENANT, [Scope.ADMIN], note="first start")
    write_key(file, issued.key)
    return issued.key


async def _store_admin_key(tenants: Tenants, key: str) -> None:
    if await tenants.has_key(key):
        return
    try:
        await tenants.issue(TENANT, [Scope.ADMIN], note="given at start", given=key)
    except RefusedError as error:
        raise StartError(f"POSTDATE_ADMIN_KEY cannot be used: {error.refusal.detail}") from error


def welcome_message(url: str, key: str | None, settings: ProcessSettings) -> str:
    """Write the message of the first start; without the key it says where the key is."""
    file = settings.data_dir / KEY_FILE
    if key is None:
        kept = "It is shown only at a terminal; that file is readable by its owner alone."
        return WELCOME.format(url=url, shown=f"in {file}", file=file, kept=kept)
    kept = f"The key is shown only now; it is kept in {file}."
    return WELCOME.format(url=url, shown=key, file=file, kept=kept)
