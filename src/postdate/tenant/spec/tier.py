"""The tiers that the operator gives tenants, as labels of metrics: few, whatever is set."""

from typing import Final

from postdate.core.setting.setting import Settings

MAX_TIERS: Final = 10
"""Maximum number of tiers with series of their own in one process; the others share one."""

OTHER: Final = "other"


class Tiers:
    """The tier of each tenant, by the setting `tenant.tier`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: set[str] = set()

    def of(self, tenant_id: int) -> str:
        """Return a tenant's tier as a label; beyond the first few tiers, one for all."""
        tier = str(self._settings.get("tenant.tier", tenant_id))
        if tier not in self._known:
            if len(self._known) >= MAX_TIERS:
                return OTHER
            self._known.add(tier)
        return tier
