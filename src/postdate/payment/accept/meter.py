"""Metrics of accepted, refused and cancelled payments."""

from collections import Counter as Tally
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter


class PaymentMeter:
    """Payments accepted and cancelled, and the holds that go with them."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._accepted = Counter(
            "postdate_payment_accepted",
            "Payments accepted over HTTP.",
            ["funding"],
            registry=registry,
        )
        self._cancelled = Counter(
            "postdate_payment_cancelled",
            "Payments cancelled before they were due.",
            registry=registry,
        )
        self._refused = Counter(
            "postdate_payment_refused",
            "Payments refused, by the code of the refusal.",
            ["code"],
            registry=registry,
        )
        self._held = Counter(
            "postdate_hold_amount_placed", "Amount reserved by new payments.", registry=registry
        )
        self._released = Counter(
            "postdate_hold_amount_released",
            "Amount released by cancelled payments.",
            registry=registry,
        )

    def accepted(self, amounts: Iterable[tuple[str, int]]) -> None:
        """Count accepted payments: funding and amount of each."""
        tally: Tally[str] = Tally()
        held = 0
        for funding, amount in amounts:
            tally[funding] += 1
            held += amount if funding == "hold" else 0
        for funding, count in tally.items():
            self._accepted.labels(funding).inc(count)
        self._held.inc(held)

    def refused(self, codes: Iterable[str]) -> None:
        """Count refused payments by code."""
        for code, count in Tally(codes).items():
            self._refused.labels(code).inc(count)

    def cancelled(self, held: int) -> None:
        """Count a payment that was cancelled, and what it held."""
        self._cancelled.inc()
        self._released.inc(held)
