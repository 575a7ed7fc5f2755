"""Metrics of the publisher."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600)


class PublisherMeter:
    """The metrics of sealing and delivering."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sealed = Counter("postdate_event_sealed", "Events sealed.", registry=registry)
        self._lag = Histogram(
            "postdate_event_lag_seconds",
            "Longest time from insert to seal among the events of one commit.",
            registry=registry,
            buckets=_SECONDS,
        )

        self._delivered = Counter(
            "postdate_subscription_delivered", "Events delivered.", registry=registry
        )
        self._failed = Counter(
            "postdate_subscription_failed",
            "Batches that stopped because a subscriber failed.",
            registry=registry,
        )
        self._behind = Gauge(
            "postdate_subscription_lag_events",
            "Unread events of the subscription that is furthest behind.",
            registry=registry,
        )
        self._status = Gauge(
            "postdate_subscriptions",
            "Subscriptions that are failing or paused.",
            ["status"],
            registry=registry,
        )

    def delivered(self, events: int, *, failed: bool) -> None:
        """Count the events of one batch, and whether it failed."""
        self._delivered.inc(events)
        if failed:
            self._failed.inc()

    def lag(self, *, events: int, failing: int, paused: int) -> None:
        """Set the lag of the subscriptions, and how many fail or are paused."""
        self._behind.set(events)
        self._status.labels("failing").set(failing)
        self._status.labels("paused").set(paused)

    def sealed(self, events: int, longest: float) -> None:
        """Count the events of one commit, and the longest that one of them has waited."""
        self._sealed.inc(events)
        self._lag.observe(max(0.0, longest))
