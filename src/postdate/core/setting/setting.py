"""Run-time settings: which values are allowed and which hold; changed without a restart."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Final, Literal

import msgspec

from postdate.core.setting.table import NAME_CHARACTERS, QUARANTINE, SETTINGS, Setting, SettingValue
from postdate.words.error import Code, refuse

LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_KINDS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
}


class Stored(msgspec.Struct, frozen=True):
    """A value that was set, for one tenant or (tenant 0) for all."""

    tenant_id: int
    name: str
    value: SettingValue
    operator: bool = True
    """Whether the operator has set it; if not, the tenant itself."""


def get_setting(name: str) -> Setting:
    """Return a setting, or refuse the name and say which one is like it."""
    found = SETTINGS.get(name)
    if found is not None:
        return found
    like = get_close_matches(name, SETTINGS, 1) if len(name) <= NAME_CHARACTERS else []
    hint = f": did you mean {like[0]}?" if like else "."
    detail = f"There is no setting {name[:NAME_CHARACTERS]}{hint}"
    raise refuse(Code.UNKNOWN_SETTING, detail, "name")


def validate(name: str, value: Any, *, tenant_id: int = 0) -> SettingValue:
    """Return the value if it is allowed for this setting; refuse it by name if not."""
    setting = get_setting(name)
    if tenant_id and not setting.per_tenant:
        raise refuse(Code.INVALID_FIELD, f"{name} cannot be set for one tenant.", "name")
    return _within(name, setting, value)


def resolve(stored: Iterable[Stored]) -> dict[tuple[int, str], Stored]:
    """Return the effective values: the operator's values bound those of tenants."""
    everything = [one for one in stored if one.name in SETTINGS]
    holds = {(one.tenant_id, one.name): one for one in everything if one.operator}
    bounds = Settings(holds)
    own = [one for one in everything if not one.operator]
    return holds | {
        (one.tenant_id, one.name): one
        for one in own
        if SETTINGS[one.name].as_tight(one.value, bounds.get(one.name, one.tenant_id))
    }


def _within(name: str, setting: Setting, value: SettingValue) -> SettingValue:
    wanted = type(setting.default)
    whole_for_float = wanted is float and type(value) is int
    if setting.choices and value not in setting.choices:
        raise refuse(Code.INVALID_FIELD, f"{name} is one of {', '.join(setting.choices)}.", "value")
    if type(value) is not wanted and not whole_for_float:
        raise refuse(Code.INVALID_FIELD, f"{name} is {_KINDS[wanted]}.", "value")
    if setting.instant and value and _instant(str(value)) is None:
        raise refuse(Code.INVALID_FIELD, f"{name} is an instant with its offset.", "value")
    if isinstance(value, str) and len(value) > setting.characters:
        detail = f"{name} has at most {setting.characters} characters."
        raise refuse(Code.INVALID_FIELD, detail, "value")
    low, high = setting.minimum, setting.maximum
    if (
        low is not None
        and high is not None
        and not isinstance(value, str)
        and not low <= value <= high
    ):
        raise refuse(Code.INVALID_FIELD, f"{name} lies between {low} and {high}.", "value")
    # Only now: a whole number of 400 digits is no float.
    return float(value) if whole_for_float else value


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if found.tzinfo is None else found


class Settings:
    """The effective settings: a tenant's value, else the value for all, else the default."""

    def __init__(self, stored: Mapping[tuple[int, str], Stored] | None = None) -> None:
        self._stored = dict(stored or {})
        self.version = 0
        self.floor = self._floor()
        """Nothing due before it is touched: LONG_AGO, unless a restore waits to be confirmed."""

    def replace(self, stored: Mapping[tuple[int, str], Stored]) -> None:
        """Take over what another node has set; `version` rises when anything has changed."""
        if stored != self._stored:
            self._stored = dict(stored)
            self.version += 1
            self.floor = self._floor()

    def get(self, name: str, tenant_id: int = 0) -> SettingValue:
        """Return the value that holds for a tenant."""
        found = self._stored.get((tenant_id, name)) or self._stored.get((0, name))
        return found.value if found else SETTINGS[name].default

    def tenants_with(self, names: Iterable[str]) -> set[int]:
        """Return the tenants for which one of these settings has a value of its own."""
        wanted = set(names)
        return {tenant_id for tenant_id, name in self._stored if tenant_id and name in wanted}

    def quarantined_until(self) -> datetime | None:
        """Return up to which instant a restore holds back what was due; None without one."""
        return _instant(str(self.get(QUARANTINE)))

    def _floor(self) -> datetime:
        until = self.quarantined_until()
        return LONG_AGO if until is None else until + timedelta(microseconds=1)

    def number(self, name: str, tenant_id: int = 0) -> float:
        """Return a numeric setting."""
        return float(self.get(name, tenant_id))

    def integer(self, name: str, tenant_id: int = 0) -> int:
        """Return an integer setting."""
        return int(self.get(name, tenant_id))

    def is_verbose(self, tenant_id: int) -> bool:
        """Return whether a tenant wants an event when an execution begins."""
        return self.get("event.verbose", tenant_id) == "on"

    def set_by(self, name: str, tenant_id: int) -> Literal["default", "operator", "tenant"]:
        """Return who has set the value that holds for a tenant."""
        found = self._stored.get((tenant_id, name)) or self._stored.get((0, name))
        return "default" if found is None else "operator" if found.operator else "tenant"
