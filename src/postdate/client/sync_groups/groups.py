"""The groups of calls of a client. Written by `make docs` from the endpoints."""

from functools import cached_property
from typing import TYPE_CHECKING

from postdate.client.group import Sender

if TYPE_CHECKING:
    from postdate.client.extended import Events, Jobs, Payments
    from postdate.client.sync_groups.accounts import Accounts
    from postdate.client.sync_groups.audit import Audit
    from postdate.client.sync_groups.calendars import Calendars
    from postdate.client.sync_groups.dead_letters import DeadLetters
    from postdate.client.sync_groups.destinations import Destinations
    from postdate.client.sync_groups.halts import Halts
    from postdate.client.sync_groups.keys import Keys
    from postdate.client.sync_groups.lanes import Lanes
    from postdate.client.sync_groups.leases import Leases
    from postdate.client.sync_groups.schedules import Schedules
    from postdate.client.sync_groups.settings import Settings
    from postdate.client.sync_groups.subscriptions import Subscriptions
    from postdate.client.sync_groups.tenants import Tenants


class Groups(Sender):
    """Every call of the API, by group."""

    @cached_property
    def keys(self) -> "Keys":
        """Call about keys."""
        from postdate.client.sync_groups.keys import Keys

        return Keys(self)

    @cached_property
    def audit(self) -> "Audit":
        """Call about audit."""
        from postdate.client.sync_groups.audit import Audit

        return Audit(self)

    @cached_property
    def halts(self) -> "Halts":
        """Call about halts."""
        from postdate.client.sync_groups.halts import Halts

        return Halts(self)

    @cached_property
    def tenants(self) -> "Tenants":
        """Call about tenants."""
        from postdate.client.sync_groups.tenants import Tenants

        return Tenants(self)

    @cached_property
    def settings(self) -> "Settings":
        """Call about settings."""
        from postdate.client.sync_groups.settings import Settings

        return Settings(self)

    @cached_property
    def destinations(self) -> "Destinations":
        """Call about destinations."""
        from postdate.client.sync_groups.destinations import Destinations

        return Destinations(self)

    @cached_property
    def accounts(self) -> "Accounts":
        """Call about accounts."""
        from postdate.client.sync_groups.accounts import Accounts

        return Accounts(self)

    @cached_property
    def payments(self) -> "Payments":
        """Call about payments."""
        from postdate.client.extended import Payments

        return Payments(self)

    @cached_property
    def jobs(self) -> "Jobs":
        """Call about jobs."""
        from postdate.client.extended import Jobs

        return Jobs(self)

    @cached_property
    def leases(self) -> "Leases":
        """Call about leases."""
        from postdate.client.sync_groups.leases import Leases

        return Leases(self)

    @cached_property
    def events(self) -> "Events":
        """Call about events."""
        from postdate.client.extended import Events

        return Events(self)

    @cached_property
    def subscriptions(self) -> "Subscriptions":
        """Call about subscriptions."""
        from postdate.client.sync_groups.subscriptions import Subscriptions

        return Subscriptions(self)

    @cached_property
    def lanes(self) -> "Lanes":
        """Call about lanes."""
        from postdate.client.sync_groups.lanes import Lanes

        return Lanes(self)

    @cached_property
    def dead_letters(self) -> "DeadLetters":
        """Call about dead letters."""
        from postdate.client.sync_groups.dead_letters import DeadLetters

        return DeadLetters(self)

    @cached_property
    def schedules(self) -> "Schedules":
        """Call about schedules."""
        from postdate.client.sync_groups.schedules import Schedules

        return Schedules(self)

    @cached_property
    def calendars(self) -> "Calendars":
        """Call about calendars."""
        from postdate.client.sync_groups.calendars import Calendars

        return Calendars(self)
