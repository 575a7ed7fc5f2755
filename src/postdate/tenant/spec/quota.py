"""Quotas on pending work: how much of a tenant may be waiting at once."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from postdate.core.setting.setting import Settings
from postdate.words.error import Code, Refusal

QuotaKind = Literal["jobs", "payments"]
SETTING_OF: Final[Mapping[QuotaKind, str]] = {
    "jobs": "quota.pending_jobs",
    "payments": "quota.pending_payments",
}


class Quotas:
    """What was counted last, and what this node has accepted since; no count waits for a request.

    Counting goes on in the background, only for tenants with a quota. Between two counts each node
    knows of its own additions alone, so that a quota may be passed by what others accept meanwhile.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[tuple[int, QuotaKind], int] = {}

    def limits_all(self) -> bool:
        """Return whether a tenant has a quota though none was set for it."""
        return any(self._max(0, kind) for kind in SETTING_OF)

    def limited(self, tenant_ids: Iterable[int] | None = None) -> list[int]:
        """Return the tenants that have a quota: among these, or among those with one of their own.

        A quota for all needs all tenants; without one, only the few with one of their own are read.
        """
        if tenant_ids is None:
            tenant_ids = self._settings.tenants_with(SETTING_OF.values())
        return sorted(t for t in tenant_ids if any(self._max(t, kind) for kind in SETTING_OF))

    def limits(self, tenant_id: int, kind: QuotaKind) -> bool:
        """Return whether a tenant has a quota of this kind: without one, nothing is counted."""
        return self._max(tenant_id, kind) > 0

    def learn(self, counted: Mapping[tuple[int, QuotaKind], int]) -> None:
        """Take over what was counted just now."""
        self._known = dict(counted)

    def check_room(self, tenant_id: int, kind: QuotaKind) -> Refusal | None:
        """Refuse one more where a tenant has as much as it may."""
        most = self._max(tenant_id, kind)
        if not most or self._known.get((tenant_id, kind), 0) < most:
            return None
        detail = f"The tenant may have at most {most} pending {kind}."
        return Refusal(Code.QUOTA_EXCEEDED, detail, extra={"quota": most})

    def count(self, tenant_id: int, kind: QuotaKind) -> None:
        """Count one accepted item of a tenant that has a quota."""
        self._known[tenant_id, kind] = self._known.get((tenant_id, kind), 0) + 1

    def _max(self, tenant_id: int, kind: QuotaKind) -> int:
        return self._settings.integer(SETTING_OF[kind], tenant_id)
