"""Calls about settings. Written by `make docs` from the endpoints."""

from postdate.client.group import Group
from postdate.client.models.settings import SettingList
from postdate.client.operations import settings as operations


class Settings(Group):
    """What the API offers about settings."""

    def list(self) -> SettingList:
        """List the run-time settings of the tenant, and who has set each.

        Each has its default, the value that holds, and what the tenant itself may do with it.
        """
        return self._send(operations.LIST_SETTINGS)

    def set(self, name: str, *, value: int | float | bool | str) -> SettingList:
        """Set a value for the tenant; every node follows within five seconds.

        `tenant_may` says what is allowed: a value that is not looser than what the operator has
        set for the tenant or for all, or than the default. Beyond that comes 403.
        `value`: A number, a text, true or false.
        """
        return self._send(operations.PUT_SETTING, path={"name": name}, body={"value": value})

    def clear(self, name: str) -> None:
        """Forget what the tenant has set; what the operator has set stays.

        The value of the operator, or the default, holds again within seconds.
        """
        self._send(operations.CLEAR_SETTING, path={"name": name})
