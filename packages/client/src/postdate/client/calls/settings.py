"""Calls about settings. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from postdate.client.call import Group, K, call
from postdate.client.models.settings import SettingList


class Settings(Group[K]):
    """What the API offers about settings."""

    @call(
        "list_settings",
        "GET",
        "/settings",
        columns=("name", "value", "set_by", "tenant_may", "default"),
    )
    def list(self) -> SettingList:
        """List the run-time settings of the tenant, and who set each.

        Each has its default, its current value, and how the tenant may change it.
        """

    @call("put_setting", "PUT", "/settings/{name}")
    def set(self, name: str, *, value: int | float | bool | str) -> SettingList:
        """Set a value for the tenant; every node applies it within five seconds.

        `tenant_may` says what is allowed: a value that is not looser than the one the operator
        has set for the tenant or for all, or than the default. Otherwise the answer is 403.
        `name`: The name by which it is known.
        `value`: A number, a string, true or false.
        """

    @call("clear_setting", "DELETE", "/settings/{name}")
    def clear(self, name: str) -> None:
        """Clear the tenant's value of a setting; the operator's value stays.

        The operator's value, or the default, applies again within seconds.
        `name`: The name by which it is known.
        """
