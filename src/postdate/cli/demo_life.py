"""Realistic demo data for a tenant: payments between people, jobs that complete or fail."""

import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from random import Random
from typing import Final

from postdate.client import Client
from postdate.client.models.jobs import BatchJobParams
from postdate.client.models.leases import Lease
from postdate.client.models.payments import BatchPaymentParams
from postdate.client.problems import AccountExistsError, ConflictError

CALENDAR: Final = "demo-bank"
DESTINATION: Final = "demo-orders"
WEBHOOK: Final = "https://shop.example/hooks/orders"
"""An address that no machine has: what is sent there fails, as some of it does in life."""

BALANCES: Final = {
    "demo-alice": 250_000,
    "demo-bob": 120_000,
    "demo-carol": 4_000,
    "demo-dave": 60_000,
    "demo-shop": 900_000,
    "demo-landlord": 0,
    "demo-utilities": 0,
}
FROZEN: Final = "demo-dave"
PURPOSES: Final = ("lunch", "concert tickets", "groceries", "train fare", "birthday present")
LANES: Final = {
    "mail": "send-mail",
    "invoices": "render-invoice",
    "thumbnails": "resize-image",
}
PAUSED_LANE: Final = "exports"
DONE: Final = 40
"""How many jobs are worked off, and how many payments made, at once."""

AHEAD: Final = 30
WEBHOOKS: Final = 3
HOUR: Final = 3600
DAY: Final = 24 * HOUR


@dataclass(slots=True)
class DemoLife:
    """Fills a tenant through its API; a run has keys of its own, so that it can be run again."""

    client: Client
    random: Random = field(default_factory=lambda: Random(7))
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    def fill(self) -> dict[str, int]:
        """Create all demo data; return how many of each kind."""
        return {
            "accounts": self._open_accounts(),
            "payments": self.pay(DONE, ahead=AHEAD),
            "schedules": self._write_schedules(),
            "jobs": self.register(DONE, ahead=AHEAD) + self._register_webhooks(),
            "attempts": self.work(),
            "subscriptions": self._subscribe(),
        }

    def _open_accounts(self) -> int:
        for account, balance in BALANCES.items():
            with suppress(AccountExistsError):
                self.client.accounts.create(account_id=account, note="made by postdate demo")
            if balance:
                self.client.accounts.adjust(
                    account,
                    amount=balance,
                    reason="opening balance",
                    idempotency_key=f"{self.run}-{account}",
                )
        return len(BALANCES)

    def pay(self, count: int, *, ahead: int = 0) -> int:
        """Make payments that are due now, and others over the next month; some cannot succeed."""
        wanted = [*self._payments(count, 1, 5), *self._payments(ahead, HOUR, 30 * DAY)]
        outcomes = self.client.payments.schedule_many(payments=wanted).outcomes
        made = [outcome.payment for outcome in outcomes if outcome.payment is not None]
        if ahead:
            self.client.payments.cancel(made[-1].payment_id)
            self.client.payments.reschedule(made[-2].payment_id, delay_seconds=2 * DAY)
            with suppress(ConflictError):
                self.client.accounts.freeze(FROZEN)
        return len(made)

    def _payments(self, count: int, soonest: int, latest: int) -> Iterator[BatchPaymentParams]:
        people = [name for name in BALANCES if name != FROZEN]
        for number in range(count):
            payer, payee = self.random.sample(people[:3], 2)
            yield {
                "from_account_id": payer,
                "to_account_id": payee if number % 4 else "demo-shop",
                "amount": self.random.randrange(200, 4_000),
                "delay_seconds": self.random.randint(soonest, latest),
                "description": self.random.choice(PURPOSES),
                # Money that is only reserved when the payment is due may be missing by then.
                "funding": "at_execution" if payer == "demo-carol" else "hold",
                "idempotency_key": f"{self.run}-{soonest}-{self.random.getrandbits(64):x}",
            }

    def _write_schedules(self) -> int:
        year = datetime.now(UTC).year
        self.client.calendars.put(
            name=CALENDAR, holidays=[date(year, 12, 25), date(year + 1, 1, 1)], weekend=[6, 7]
        )
        schedules = self.client.schedules
        schedules.create(
            name="rent",
            rrule="FREQ=MONTHLY;BYMONTHDAY=1;BYHOUR=9;BYMINUTE=0;BYSECOND=0",
            timezone="Europe/Berlin",
            calendar=CALENDAR,
            roll="following",
            template={
                "payment": {
                    "from_account_id": "demo-alice",
                    "to_account_id": "demo-landlord",
                    "amount": 85_000,
                    "description": "rent",
                }
            },
        )
        schedules.create(
            name="electricity",
            cron="0 6 15 * *",
            template={
                "payment": {
                    "from_account_id": "demo-bob",
                    "to_account_id": "demo-utilities",
                    "amount": 6_400,
                    "description": "electricity",
                }
            },
        )
        schedules.create(
            name="stand-up reminder",
            cron="45 8 * * MON-FRI",
            timezone="Europe/Berlin",
            template={"job": {"destination": {"type": "worker"}, "lane": "mail"}},
        )
        paused = schedules.create(
            name="nightly export",
            cron="30 2 * * *",
            template={"job": {"destination": {"type": "worker"}, "lane": PAUSED_LANE}},
        )
        schedules.pause(paused.schedule_id, note="the warehouse is being moved")
        return 4

    def register(self, count: int, *, ahead: int = 0) -> int:
        """Register jobs for our own workers: some due now, some over the next days."""
        wanted = [*self._jobs(count, 0, 0), *self._jobs(ahead, HOUR, 3 * DAY)]
        accepted = self.client.jobs.create_many(jobs=wanted).accepted
        if ahead:
            self.client.lanes.pause(PAUSED_LANE, note="the warehouse is being moved")
        return accepted

    def _jobs(self, count: int, soonest: int, latest: int) -> Iterator[BatchJobParams]:
        for number in range(count):
            lane = self.random.choice(list(LANES)) if number % 8 else PAUSED_LANE
            yield {
                "destination": {"type": "worker"},
                "lane": lane,
                "delay_seconds": self.random.randint(soonest, latest),
                "payload": {"order": 1000 + number},
                "metadata": {"kind": LANES.get(lane, "export")},
                "retry": {"max_attempts": 3, "initial_seconds": 300, "on_unknown": "hold"},
            }

    def _register_webhooks(self) -> int:
        with suppress(ConflictError):
            self.client.destinations.create(name=DESTINATION, type="webhook", url=WEBHOOK)
        for number in range(WEBHOOKS):
            self.client.jobs.create(
                destination={"type": "webhook", "name": DESTINATION},
                payload={"order": number},
                retry={"max_attempts": 1 + number},
            )
        return WEBHOOKS

    def work(self) -> int:
        """Claim and report all due jobs, most of them as done; return how many."""
        worked = 0
        for lane in LANES:
            while leases := self.client.leases.claim(lane, max=20, wait_seconds=0).leases:
                for lease in leases:
                    self._report(lease)
                worked += len(leases)
        return worked

    def _report(self, lease: Lease) -> None:
        leases, chance = self.client.leases, self.random.random()
        if chance < 0.75:  # noqa: PLR2004 - most of it
            leases.complete(lease.job_id, token=lease.token, result={"ok": True})
        elif chance < 0.85:  # noqa: PLR2004 - is tried again later
            leases.fail(lease.job_id, token=lease.token, error="the printer does not answer")
        elif chance < 0.95:  # noqa: PLR2004 - is given up
            leases.fail(
                lease.job_id, token=lease.token, error="there is no such order", retryable=False
            )
        else:
            leases.fail(lease.job_id, token=lease.token, error="the connection broke", unknown=True)

    def _subscribe(self) -> int:
        made = self.client.subscriptions.create(
            destination={"type": "webhook", "name": DESTINATION}, types=["payment.*"]
        )
        self.client.subscriptions.change(
            made.subscription_id, paused=True, note="the shop is being rebuilt"
        )
        self.client.subscriptions.create(
            destination={"type": "webhook", "name": DESTINATION}, types=["job.failed"]
        )
        return 2
