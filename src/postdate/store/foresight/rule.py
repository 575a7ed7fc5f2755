"""The rules of schedules, as far as they say what will be due."""

from datetime import datetime
from functools import lru_cache
from typing import Final
from uuid import UUID

import msgspec

from postdate.model.schedule.schedule import PaymentTemplate, Policies, Rule
from postdate.store.connection.database import Connection
from postdate.store.connection.query import query

REMEMBERED: Final = 16_384

rule_of: Final = lru_cache(REMEMBERED)(msgspec.json.Decoder(Rule).decode)
policies_of: Final = lru_cache(REMEMBERED)(msgspec.json.Decoder(Policies).decode)
_payment: Final = msgspec.json.Decoder(PaymentTemplate)


class ScheduleRule(msgspec.Struct, frozen=True, gc=False):
    """A schedule that goes on: its rule, and what each occurrence becomes."""

    tenant_id: int
    schedule_id: UUID
    handled: datetime
    runs: int
    rule_json: str
    policies_json: str
    lane: str | None
    destination: str | None
    payment_json: str | None

    @property
    def payment(self) -> PaymentTemplate | None:
        """Return the payment that each occurrence becomes, if it becomes one."""
        return None if self.payment_json is None else _payment.decode(self.payment_json)


async def fingerprint(connection: Connection, tenant_id: int | None) -> tuple[object, ...]:
    """Return what changes whenever a rule, a pause or a calendar of a tenant does."""
    return tuple(await connection.fetchrow(query("rule_fingerprint"), tenant_id) or ())


async def load(connection: Connection, tenant_id: int | None, limit: int) -> list[ScheduleRule]:
    """Return the rules of a tenant, or of all tenants."""
    rows = await connection.fetch(query("rule_list"), tenant_id, limit)
    return [ScheduleRule(*row) for row in rows]
