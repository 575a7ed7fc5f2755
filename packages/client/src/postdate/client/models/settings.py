"""Models of settings. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class SettingSetBy(OpenEnum):
    """What `SettingSetBy` may be."""

    DEFAULT = "default"
    OPERATOR = "operator"
    TENANT = "tenant"


class TenantMay(OpenEnum):
    """What a tenant's admin may do about a setting; the operator may set every one."""

    NOTHING = "nothing"
    LOWER = "lower"
    RAISE = "raise"
    CHOOSE = "choose"


class Setting(Struct, frozen=True, kw_only=True):
    """A setting as a tenant sees it: the current value, and who set it."""

    name: str
    """The setting's name."""
    value: int | float | bool | str
    """The value that holds."""
    set_by: SettingSetBy
    """Who decides the value that holds."""
    default: int | float | bool | str
    """The value while it is not set."""
    doc: str
    """What the setting does."""
    tenant_may: TenantMay
    """What the tenant itself may do with the setting."""
    own: int | float | bool | str | None = None
    """What the tenant has set itself; null when nothing."""
    changed_at: datetime | None = None
    """When it last changed."""
    changed_by: str | None = None
    """The key that changed it last."""


class SettingList(Struct, frozen=True, kw_only=True):
    """A page of settings."""

    settings: list[Setting]
    """All settings."""
