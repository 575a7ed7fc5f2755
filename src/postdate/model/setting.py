"""Run-time settings: names, bounds and defaults, changed without a restart."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

import msgspec

from postdate.model.errors import Code, refuse

Value = int | float | bool | str

FEATURE: Final = "feature."
"""A name with this prefix is a feature flag: boolean, for a tenant or a percentage of ids."""


class Setting(msgspec.Struct, frozen=True):
    """One setting: its default, its bounds, and what it is for."""

    default: Value
    doc: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    instant: bool = False
    """Empty, or an instant with its offset."""


SECONDS_A_YEAR: Final = 365 * 24 * 3600
QUARANTINE: Final = "restore.quarantine"
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)

SETTINGS: Final[Mapping[str, Setting]] = {
    "payment.max_amount": Setting(
        1_000_000, "Largest amount of one payment; an account may have a lower limit.", 1, 2**53
    ),
    "payment.max_delay_seconds": Setting(
        SECONDS_A_YEAR, "How far ahead a payment may be scheduled.", 1, 10 * SECONDS_A_YEAR
    ),
    "payment.approval_above": Setting(
        0, "Payments above this amount wait for a second key's approval; 0 asks for none.", 0, 2**53
    ),
    "payment.approval_seconds": Setting(
        86400.0, "How long a payment waits for that before it fails.", 1, SECONDS_A_YEAR
    ),
    "payment.retry_attempts": Setting(
        3, "How often a payment that failed for a passing reason is tried again.", 0, 20
    ),
    "payment.retry_seconds": Setting(
        1.0, "Wait before the first of those retries; it doubles each time.", 0.01, 3600
    ),
    "history.retention_days": Setting(
        0,
        "After how many days the weeks of attempts and events are detached; 0 keeps them for ever.",
        0,
        36500,
    ),
    "settlement.stopped": Setting(
        "", "Why no payment is settled now, on any node; empty lets settlement go on."
    ),
    "restore.quarantine": Setting(
        "",
        "Nothing that was due up to this instant is claimed, settled or expanded: after a restore "
        "it may have run already. `postdate restore` sets and clears it.",
        instant=True,
    ),
    "settlement.clock_step_seconds": Setting(
        60.0,
        "How far the database's clock may run ahead of a node's steady one before settlement "
        "stops until somebody confirms the new time.",
        1,
        10 * SECONDS_A_YEAR,
    ),
    "worker.lease_seconds": Setting(
        30.0, "How long a claimed job is out of reach of other workers unless renewed.", 0.2, 3600
    ),
    "worker.max_running": Setting(
        0, "The most jobs of a tenant running at once in all processes; 0 is no limit.", 0, 2**31
    ),
    "worker.rate_per_second": Setting(
        0.0, "The most jobs of a tenant started in a second; 0 is no limit.", 0, 1e6
    ),
    "event.timeout_seconds": Setting(
        10.0, "How long a subscriber may take to accept one event.", 0.1, 20
    ),
    "event.concurrency": Setting(
        32, "How many events of one subscription are under way at once.", 1, 256
    ),
    "event.max_seconds": Setting(
        300.0, "Longest wait between two tries to reach a subscriber.", 1, 86400
    ),
    "event.max_age_seconds": Setting(
        3 * 86400.0, "A subscription that fails for this long is paused.", 1, 366 * 86400
    ),
    "event.max_subscriptions": Setting(100, "The most subscriptions of a tenant.", 0, 10_000),
    "schedule.min_interval_seconds": Setting(
        1, "The shortest distance between two occurrences of a schedule.", 1, 86400
    ),
    "schedule.audit_hours": Setting(
        24, "How far back the audit compares the book with what the rules say.", 1, 720
    ),
    "job.max_attempts": Setting(10, "How often a job is tried, the first time included.", 1, 100),
    "job.backoff": Setting(
        "exponential",
        "How the wait between attempts grows.",
        choices=("exponential", "linear", "fixed"),
    ),
    "job.initial_seconds": Setting(2.0, "Wait after the first attempt of a job.", 0.01, 86400),
    "job.max_seconds": Setting(3600.0, "Longest wait between two attempts.", 0.01, 7 * 86400),
    "job.jitter": Setting(0.2, "Part of the wait by which it may differ either way.", 0, 1),
    "job.max_age_seconds": Setting(
        3 * 86400.0, "How long after its first due instant a job is still tried.", 1, 366 * 86400
    ),
    "job.on_unknown": Setting(
        "retry",
        "What an attempt of unknown outcome leads to: another one, or waiting for a person.",
        choices=("retry", "hold"),
    ),
    "job.encryption": Setting(
        "off", "Whether payloads are stored encrypted from now on.", choices=("off", "on")
    ),
    "job.timeout_seconds": Setting(30.0, "How long one attempt may take.", 0.1, 3600),
    "job.past_tolerance_seconds": Setting(
        3600,
        "A `run_at` this far in the past still runs, at once; beyond, it is refused.",
        0,
        2**31,
    ),
    "job.horizon_seconds": Setting(
        10 * SECONDS_A_YEAR, "How far ahead a job may be due.", 60, 100 * SECONDS_A_YEAR
    ),
    "job.idempotency_days": Setting(7, "How long the key of a job is remembered.", 7, 3650),
    "job.retention_days": Setting(
        30, "How long a finished job and its attempts are kept; 0 keeps them for ever.", 0, 36500
    ),
    "job.max_lanes": Setting(1000, "The most lanes of a tenant.", 1, 100_000),
    "destination.most": Setting(1000, "The most destinations of a tenant.", 0, 100_000),
    "quota.pending_jobs": Setting(
        0, "The most jobs of a tenant that wait or run; 0 is no limit.", 0, 2**53
    ),
    "quota.pending_payments": Setting(
        0, "The most open payments of a tenant; 0 is no limit.", 0, 2**53
    ),
    "quota.accounts": Setting(0, "The most open accounts of a tenant; 0 is no limit.", 0, 2**53),
    "quota.schedules": Setting(0, "The most schedules of a tenant; 0 is no limit.", 0, 2**53),
    "key.most": Setting(1000, "The most keys of a tenant that have not ended.", 1, 100_000),
    "rate.key_per_second": Setting(
        0.0, "The most requests of one key in a second, over all nodes; 0 is no limit.", 0, 1e6
    ),
    "rate.tenant_per_second": Setting(
        0.0, "The most requests of a tenant in a second, over all nodes; 0 is no limit.", 0, 1e6
    ),
    "webhook.response_bytes": Setting(
        4096, "How much of a webhook's answer is kept with the attempt.", 0, 65_536
    ),
    "webhook.ack_seconds": Setting(
        900.0, "How long `202` with `postdate-ack: later` keeps a job running.", 1, 86_400
    ),
}


class Stored(msgspec.Struct, frozen=True):
    """A value somebody set, for one tenant or (tenant 0) for all."""

    tenant_id: int
    name: str
    value: Value
    percent: int | None = None


def validate(name: str, value: Any, percent: int | None = None) -> Value:
    """Give the value if it is allowed for this setting; refuse it by name if not."""
    if name.startswith(FEATURE) and len(name) > len(FEATURE):
        if not isinstance(value, bool):
            raise refuse(Code.INVALID_FIELD, f"{name} is a feature flag: true or false.", "value")
        return value
    if percent is not None:
        raise refuse(Code.INVALID_FIELD, "Only feature flags take a percentage.", "percent")
    setting = SETTINGS.get(name)
    if setting is None:
        raise refuse(
            Code.UNKNOWN_SETTING,
            f"There is no setting {name}: use one of {', '.join(SETTINGS)}.",
            "name",
        )
    return _within(name, setting, value)


def _within(name: str, setting: Setting, value: Value) -> Value:
    wanted = type(setting.default)
    if wanted is float and type(value) is int:
        value = float(value)
    if type(value) is not wanted:
        raise refuse(Code.INVALID_FIELD, f"{name} is of type {wanted.__name__}.", "value")
    if setting.choices and value not in setting.choices:
        raise refuse(Code.INVALID_FIELD, f"{name} is one of {', '.join(setting.choices)}.", "value")
    if setting.instant and value and _instant(str(value)) is None:
        raise refuse(Code.INVALID_FIELD, f"{name} is an instant with its offset.", "value")
    low, high = setting.least, setting.most
    if (
        low is not None
        and high is not None
        and not isinstance(value, str)
        and not low <= value <= high
    ):
        raise refuse(Code.INVALID_FIELD, f"{name} lies between {low} and {high}.", "value")
    return value


def _instant(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if found.tzinfo is None else found


class Settings:
    """What holds now: a tenant's value, else everybody's, else the default."""

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

    def get(self, name: str, tenant_id: int = 0) -> Value:
        """Give the value that holds for a tenant."""
        found = self._stored.get((tenant_id, name)) or self._stored.get((0, name))
        return found.value if found else SETTINGS[name].default

    def _floor(self) -> datetime:
        until = _instant(str(self.get(QUARANTINE)))
        return LONG_AGO if until is None else until + timedelta(microseconds=1)

    def number(self, name: str, tenant_id: int = 0) -> float:
        """Give a numeric setting."""
        return float(self.get(name, tenant_id))

    def whole(self, name: str, tenant_id: int = 0) -> int:
        """Give an integer setting."""
        return int(self.get(name, tenant_id))

    def enabled(self, feature: str, tenant_id: int, identifier: str) -> bool:
        """Say whether a feature is on for this id: the same answer on every node."""
        name = FEATURE + feature
        found = self._stored.get((tenant_id, name)) or self._stored.get((0, name))
        if found is None or not found.value:
            return False
        return found.percent is None or percentile(feature, identifier) < found.percent


def percentile(feature: str, identifier: str) -> int:
    """Place an id in 0..99, differently for each feature."""
    digest = blake2b(f"{feature}:{identifier}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % 100


def reference() -> str:
    """Write the table of the run-time settings for the reference page."""
    lines = ["| name | default | bounds | meaning |", "|---|---|---|---|"]
    for name, setting in SETTINGS.items():
        bounds = ", ".join(setting.choices) or f"{setting.least} to {setting.most}"
        lines.append(f"| `{name}` | `{setting.default}` | {bounds} | {setting.doc} |")
    return "\n".join(lines)
