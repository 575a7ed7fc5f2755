"""Calls about settings. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from postdate.client.call import Group, K, call
from postdate.client.models.settings import SettingList


class Settings(Group[K]):
    """What the API offers about settings."""

    @call("list_settings", "GET", "/settings")
    def list(self) -> SettingList:
        """List the run-time settings of the tenant, and who has set each.

        Each has its default, the value that holds, and what the tenant itself may do with it.
        """

    @call("put_setting", "PUT", "/settings/{name}")
    def set(self, name: str, *, value: int | float | bool | str) -> SettingList:
        """Set a value for the tenant; every node follows within five seconds.

        `tenant_may` says what is allowed: a value that is not looser than what the operator has
        set for the tenant or for all, or than the default. Beyond that comes 403.
        `value`: A number, a text, true or false.
        """

    @call("clear_setting", "DELETE", "/settings/{name}")
    def clear(self, name: str) -> None:
        """Forget what the tenant has set; what the operator has set stays.

        The value of the operator, or the default, holds again within seconds.
        """
