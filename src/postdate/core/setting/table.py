"""The run-time settings: default, bounds and meaning of each, and what a tenant may do about it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

SettingValue = int | float | bool | str

NAME_CHARACTERS: Final = 64
"""No setting has a longer name; a longer one is refused without a search for similar names."""

TEXT_CHARACTERS: Final = 500


class TenantMay(StrEnum):
    """What a tenant's admin may do about a setting; the operator may set every one."""

    NOTHING = "nothing"
    LOWER = "lower"
    RAISE = "raise"
    CHOOSE = "choose"


class Setting(msgspec.Struct, frozen=True):
    """One setting: its default, its bounds, what it is for, and who may set it.

    A tenant that may lower a setting can set at most what the operator allows: by a value for the
    tenant, a value for all tenants, or the default. By default only the operator may set it.
    """

    default: SettingValue
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    instant: bool = False
    """Empty, or an instant with its offset."""
    tenant_may: TenantMay = TenantMay.NOTHING
    zero_is_none: bool = False
    """Whether 0 stands for no limit: the loosest value, not the tightest."""
    per_tenant: bool = True
    """Whether it can differ between tenants."""
    characters: int = TEXT_CHARACTERS
    """The longest text."""

    def as_tight(self, value: SettingValue, allowed: SettingValue) -> bool:
        """Return whether a tenant's value is within what the operator allows."""
        match self.tenant_may:
            case TenantMay.NOTHING:
                return False
            case TenantMay.CHOOSE:
                return True
            case TenantMay.LOWER:
                return self._where(value) <= self._where(allowed)
            case TenantMay.RAISE:
                return self._where(value) >= self._where(allowed)

    def _where(self, value: SettingValue) -> float:
        if isinstance(value, str):
            return self.choices.index(value)
        return float("inf") if self.zero_is_none and value == 0 else float(value)


SECONDS_A_YEAR: Final = 365 * 24 * 3600
QUARANTINE: Final = "restore.quarantine"

LOWER, RAISE, CHOOSE = TenantMay.LOWER, TenantMay.RAISE, TenantMay.CHOOSE

SETTINGS: Final[Mapping[str, Setting]] = {
    "tenant.tier": Setting(
        "",
        "The tier that you give a tenant, such as `gold`: a label of "
        "`postdate_job_attempts_total`. "
        "In one process ten tiers have series of their own; further ones share `other`.",
        characters=30,
    ),
    "payment.max_amount": Setting(
        1_000_000,
        "Largest amount of one payment; an account may have a limit of its own.",
        1,
        2**53,
        tenant_may=LOWER,
    ),
    "payment.account_max_amount": Setting(
        0,
        "Up to which amount the `max_amount` of an account may exceed `payment.max_amount`. With 0 "
        "it can only be lower.",
        0,
        2**53,
    ),
    "payment.max_delay_seconds": Setting(
        SECONDS_A_YEAR,
        "How far in the future a payment may be scheduled.",
        1,
        10 * SECONDS_A_YEAR,
        tenant_may=LOWER,
    ),
    "payment.approval_above": Setting(
        0,
        "Payments above this amount wait for a second person's approval; 0 turns approvals off.",
        0,
        2**53,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "payment.approval_seconds": Setting(
        86400.0,
        "How long a payment waits for approval before it fails.",
        1,
        SECONDS_A_YEAR,
        tenant_may=CHOOSE,
    ),
    "payment.retry_attempts": Setting(
        3, "How often a payment that failed for a temporary reason is retried.", 0, 20
    ),
    "payment.retry_seconds": Setting(
        1.0, "Wait before the first of those retries; it doubles each time.", 0.01, 3600
    ),
    "payment.on_broken": Setting(
        "hold",
        "What happens to a payment whose settlement failed permanently, unless the payment says "
        "otherwise: its amount stays held and it waits for a person, or it fails and the amount "
        "is released.",
        choices=("hold", "release"),
        tenant_may=CHOOSE,
    ),
    "payment.unsafe_commits": Setting(
        "refuse",
        "Whether to accept new payments while the database may lose confirmed commits "
        "(`fsync`, `full_page_writes` or `synchronous_commit` off, asynchronous replication).",
        choices=("refuse", "accept"),
        per_tenant=False,
    ),
    "foresight.jobs_per_second": Setting(
        0.0,
        "How many jobs can be executed in a second, for `/foresight/load`; 0 uses the busiest "
        "minute of the last two hours.",
        0,
        1e6,
        tenant_may=CHOOSE,
    ),
    "foresight.payments_per_second": Setting(
        0.0,
        "How many payments can be settled in a second, for `/foresight/load`; 0 uses the busiest "
        "minute of the last two hours.",
        0,
        1e6,
        tenant_may=CHOOSE,
    ),
    "foresight.warn_hours": Setting(
        24.0,
        "How many hours ahead to warn of a payment that will fail (`payment.will_fail`, the "
        "overview, `postdate_payment_will_fail`); 0 turns warnings off.",
        0,
        8760,
        tenant_may=CHOOSE,
    ),
    "history.retention_days": Setting(
        0,
        "After how many days the weeks of attempts and events are detached; 0 keeps them forever.",
        0,
        36500,
        per_tenant=False,
    ),
    "settlement.stopped": Setting(
        "",
        "Why settlement is stopped on all nodes; empty while it runs.",
        per_tenant=False,
    ),
    "restore.quarantine": Setting(
        "",
        "Nothing that was due up to this instant is claimed, settled or expanded: after a restore "
        "it may have run already. `postdate restore` sets and clears it.",
        instant=True,
        per_tenant=False,
    ),
    "proof.round_seconds": Setting(
        3600.0,
        "How long one round of proofs takes; a round proves every bucket once.",
        1,
        7 * 86400,
        per_tenant=False,
    ),
    "proof.full_seconds": Setting(
        7 * 86400.0,
        "How often the whole chain of every tenant is compared with what it seals.",
        60,
        SECONDS_A_YEAR,
        per_tenant=False,
    ),
    "clock.step_seconds": Setting(
        60.0,
        "How far the database's clock may run ahead of a node's monotonic clock, or, when the node "
        "starts, of both its clock and the last recorded time. Beyond that nodes go by the time "
        "they believed before, until the clock is right again or a person confirms it.",
        1,
        10 * SECONDS_A_YEAR,
        per_tenant=False,
    ),
    "worker.lease_seconds": Setting(
        30.0, "How long a claimed job is reserved for its worker unless renewed.", 0.2, 3600
    ),
    "worker.max_running": Setting(
        0,
        "Maximum number of a tenant's jobs that run at once in all processes; 0 is no limit.",
        0,
        2**31,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "worker.rate_per_second": Setting(
        0.0,
        "Maximum number of a tenant's jobs that start in a second; 0 is no limit.",
        0,
        1e6,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "event.timeout_seconds": Setting(
        10.0, "How long a subscriber may take to accept one event.", 0.1, 20, tenant_may=LOWER
    ),
    "event.concurrency": Setting(
        32, "How many events of one subscription are sent at once.", 1, 256, tenant_may=LOWER
    ),
    "event.max_seconds": Setting(
        300.0, "Longest delay between two tries to reach a subscriber.", 1, 86400, tenant_may=RAISE
    ),
    "event.max_age_seconds": Setting(
        3 * 86400.0,
        "A subscription that fails for this long is paused.",
        1,
        366 * 86400,
        tenant_may=LOWER,
    ),
    "event.max_subscriptions": Setting(
        100, "Maximum number of a tenant's subscriptions.", 0, 10_000, tenant_may=LOWER
    ),
    "event.verbose": Setting(
        "off",
        "Whether every attempt of a job and every execution of a payment also records an event "
        "when it begins: `job.claimed`, `payment.executing`; and every report of a worker's "
        "progress: `job.progressed`.",
        choices=("off", "on"),
        tenant_may=CHOOSE,
    ),
    "schedule.min_interval_seconds": Setting(
        1,
        "Shortest interval between two occurrences of a schedule.",
        1,
        86400,
        tenant_may=RAISE,
    ),
    "schedule.audit_hours": Setting(
        24, "How far back the audit compares the book with what the rules say.", 1, 720
    ),
    "job.max_attempts": Setting(
        10, "How often a job is tried, the first time included.", 1, 100, tenant_may=CHOOSE
    ),
    "job.backoff": Setting(
        "exponential",
        "How the delay between attempts grows.",
        choices=("exponential", "linear", "fixed"),
        tenant_may=CHOOSE,
    ),
    "job.initial_seconds": Setting(
        2.0, "Delay after the first attempt of a job.", 0.01, 86400, tenant_may=CHOOSE
    ),
    "job.max_seconds": Setting(
        3600.0, "Longest delay between two attempts.", 0.01, 7 * 86400, tenant_may=CHOOSE
    ),
    "job.jitter": Setting(
        0.2, "Fraction by which a delay varies at random, up or down.", 0, 1, tenant_may=CHOOSE
    ),
    "job.cancel_deadline_seconds": Setting(
        30.0, "How long a worker may keep a cancelled job.", 0, 86400, tenant_may=CHOOSE
    ),
    "job.max_age_seconds": Setting(
        3 * 86400.0,
        "How long after its first due instant a job is still tried.",
        1,
        366 * 86400,
        tenant_may=CHOOSE,
    ),
    "job.on_unknown": Setting(
        "retry",
        "What follows an attempt whose outcome is unknown: a retry, or waiting for a person.",
        choices=("retry", "hold"),
        tenant_may=CHOOSE,
    ),
    "job.encryption": Setting(
        "off",
        "Whether payloads are stored encrypted from now on.",
        choices=("off", "on"),
        tenant_may=RAISE,
    ),
    "job.timeout_seconds": Setting(
        30.0, "How long one attempt may take.", 0.1, 3600, tenant_may=CHOOSE
    ),
    "job.past_tolerance_seconds": Setting(
        3600,
        "A `run_at` up to this far in the past runs immediately; an earlier one is refused.",
        0,
        2**31,
        tenant_may=CHOOSE,
    ),
    "job.horizon_seconds": Setting(
        10 * SECONDS_A_YEAR,
        "How far in the future a job may be due.",
        60,
        100 * SECONDS_A_YEAR,
        tenant_may=LOWER,
    ),
    "job.idempotency_days": Setting(
        7,
        "Minimum time for which a job's key is remembered after the job has ended.",
        7,
        3650,
    ),
    "job.retention_days": Setting(
        30,
        "How long a finished job and its attempts are kept; 0 keeps them forever.",
        0,
        36500,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "job.max_lanes": Setting(1000, "Maximum number of lanes.", 1, 100_000, tenant_may=LOWER),
    "destination.max_count": Setting(
        1000, "Maximum number of a tenant's destinations.", 0, 100_000, tenant_may=LOWER
    ),
    "quota.pending_jobs": Setting(
        0,
        "Maximum number of a tenant's jobs that wait or run; 0 is no limit.",
        0,
        2**53,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "quota.pending_payments": Setting(
        0,
        "Maximum number of a tenant's open payments; 0 is no limit.",
        0,
        2**53,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "quota.accounts": Setting(
        0,
        "Maximum number of a tenant's open accounts; 0 is no limit.",
        0,
        2**53,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "quota.schedules": Setting(
        0,
        "Maximum number of a tenant's schedules; 0 is no limit.",
        0,
        2**53,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "key.max_count": Setting(
        1000, "Maximum number of a tenant's valid keys.", 1, 100_000, tenant_may=LOWER
    ),
    "rate.key_per_second": Setting(
        0.0,
        "Maximum requests per second of one key, across all nodes; 0 is no limit.",
        0,
        1e6,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "rate.tenant_per_second": Setting(
        0.0,
        "Maximum requests per second of a tenant, across all nodes; 0 is no limit.",
        0,
        1e6,
        tenant_may=LOWER,
        zero_is_none=True,
    ),
    "webhook.response_bytes": Setting(
        4096,
        "How much of a webhook's answer is stored with the attempt.",
        0,
        65_536,
        tenant_may=LOWER,
    ),
    "webhook.ack_seconds": Setting(
        900.0,
        "How long `202` with `postdate-ack: later` keeps a job running.",
        1,
        86_400,
        tenant_may=LOWER,
    ),
}
