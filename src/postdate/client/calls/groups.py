"""The groups of calls of a client. Written by `make docs` from the endpoints."""

from functools import cached_property
from typing import TYPE_CHECKING, Generic

from postdate.client.call import Caller, K

if TYPE_CHECKING:
    from postdate.client.calls.accounts import Accounts
    from postdate.client.calls.audit import Audit
    from postdate.client.calls.calendars import Calendars
    from postdate.client.calls.change_sets import ChangeSets
    from postdate.client.calls.dead_letters import DeadLetters
    from postdate.client.calls.destinations import Destinations
    from postdate.client.calls.foresight import Foresight
    from postdate.client.calls.halts import Halts
    from postdate.client.calls.keys import Keys
    from postdate.client.calls.lanes import Lanes
    from postdate.client.calls.leases import Leases
    from postdate.client.calls.receipts import Receipts
    from postdate.client.calls.schedules import Schedules
    from postdate.client.calls.settings import Settings
    from postdate.client.calls.subscriptions import Subscriptions
    from postdate.client.calls.tenants import Tenants
    from postdate.client.calls.test_clock import TestClock
    from postdate.client.extended import Events, Jobs, Payments


class Groups(Caller, Generic[K]):
    """Every call of the API, by group."""

    @cached_property
    def keys(self) -> "Keys[K]":
        """Call about keys."""
        from postdate.client.calls.keys import Keys

        return Keys(self)

    @cached_property
    def audit(self) -> "Audit[K]":
        """Call about audit."""
        from postdate.client.calls.audit import Audit

        return Audit(self)

    @cached_property
    def halts(self) -> "Halts[K]":
        """Call about halts."""
        from postdate.client.calls.halts import Halts

        return Halts(self)

    @cached_property
    def tenants(self) -> "Tenants[K]":
        """Call about tenants."""
        from postdate.client.calls.tenants import Tenants

        return Tenants(self)

    @cached_property
    def settings(self) -> "Settings[K]":
        """Call about settings."""
        from postdate.client.calls.settings import Settings

        return Settings(self)

    @cached_property
    def destinations(self) -> "Destinations[K]":
        """Call about destinations."""
        from postdate.client.calls.destinations import Destinations

        return Destinations(self)

    @cached_property
    def accounts(self) -> "Accounts[K]":
        """Call about accounts."""
        from postdate.client.calls.accounts import Accounts

        return Accounts(self)

    @cached_property
    def payments(self) -> "Payments[K]":
        """Call about payments."""
        from postdate.client.extended import Payments

        return Payments(self)

    @cached_property
    def jobs(self) -> "Jobs[K]":
        """Call about jobs."""
        from postdate.client.extended import Jobs

        return Jobs(self)

    @cached_property
    def leases(self) -> "Leases[K]":
        """Call about leases."""
        from postdate.client.calls.leases import Leases

        return Leases(self)

    @cached_property
    def events(self) -> "Events[K]":
        """Call about events."""
        from postdate.client.extended import Events

        return Events(self)

    @cached_property
    def subscriptions(self) -> "Subscriptions[K]":
        """Call about subscriptions."""
        from postdate.client.calls.subscriptions import Subscriptions

        return Subscriptions(self)

    @cached_property
    def lanes(self) -> "Lanes[K]":
        """Call about lanes."""
        from postdate.client.calls.lanes import Lanes

        return Lanes(self)

    @cached_property
    def dead_letters(self) -> "DeadLetters[K]":
        """Call about dead letters."""
        from postdate.client.calls.dead_letters import DeadLetters

        return DeadLetters(self)

    @cached_property
    def schedules(self) -> "Schedules[K]":
        """Call about schedules."""
        from postdate.client.calls.schedules import Schedules

        return Schedules(self)

    @cached_property
    def calendars(self) -> "Calendars[K]":
        """Call about calendars."""
        from postdate.client.calls.calendars import Calendars

        return Calendars(self)

    @cached_property
    def foresight(self) -> "Foresight[K]":
        """Call about foresight."""
        from postdate.client.calls.foresight import Foresight

        return Foresight(self)

    @cached_property
    def receipts(self) -> "Receipts[K]":
        """Call about receipts."""
        from postdate.client.calls.receipts import Receipts

        return Receipts(self)

    @cached_property
    def change_sets(self) -> "ChangeSets[K]":
        """Call about change sets."""
        from postdate.client.calls.change_sets import ChangeSets

        return ChangeSets(self)

    @cached_property
    def test_clock(self) -> "TestClock[K]":
        """Call about test clock."""
        from postdate.client.calls.test_clock import TestClock

        return TestClock(self)
