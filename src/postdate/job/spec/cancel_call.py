"""A call that tells the receiver of a running job that the job is to be cancelled."""

from datetime import datetime
from uuid import UUID

import msgspec


class CancelCall(msgspec.Struct, frozen=True):
    """A call that one node makes now; another may make it again from `taken_until` on."""

    tenant_id: int
    job_id: UUID
    cancel_deadline: datetime
    taken_until: datetime
