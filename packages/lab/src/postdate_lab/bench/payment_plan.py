"""How much `postdate bench payments` measures."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(slots=True, frozen=True, kw_only=True)
class PaymentPlan:
    """How much to measure."""

    rounds: int = 3
    accounts: int = 10_000
    settled: int = 40_000
    naive: int = 4000
    accepted: int = 10_000
    bulk: int = 40_000
    stored: int = 1_000_000
    asked: int = 10_000
    rate: int = 1000
    seconds: int = 60
    spike: int = 100_000
    pgledger: Path | None = None


QUICK: Final = PaymentPlan(
    rounds=1, accounts=100, settled=2000, naive=100, accepted=200, bulk=2000, stored=4000,
    asked=200, rate=50, seconds=2, spike=2000,
)  # fmt: skip
