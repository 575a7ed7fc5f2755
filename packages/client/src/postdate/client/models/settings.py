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
    value: int | float | bool | str
    set_by: SettingSetBy
    default: int | float | bool | str
    doc: str
    tenant_may: TenantMay
    own: int | float | bool | str | None = None
    changed_at: datetime | None = None
    changed_by: str | None = None


class SettingList(Struct, frozen=True, kw_only=True):
    """Every setting."""

    settings: list[Setting]
