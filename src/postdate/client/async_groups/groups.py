"""The groups of calls of a client. Written by `make docs` from the endpoints."""

from functools import cached_property
from typing import TYPE_CHECKING

from postdate.client.group import AsyncSender

if TYPE_CHECKING:
    from postdate.client.async_groups.accounts import AsyncAccounts
    from postdate.client.async_groups.audit import AsyncAudit
    from postdate.client.async_groups.calendars import AsyncCalendars
    from postdate.client.async_groups.dead_letters import AsyncDeadLetters
    from postdate.client.async_groups.destinations import AsyncDestinations
    from postdate.client.async_groups.halts import AsyncHalts
    from postdate.client.async_groups.keys import AsyncKeys
    from postdate.client.async_groups.lanes import AsyncLanes
    from postdate.client.async_groups.leases import AsyncLeases
    from postdate.client.async_groups.schedules import AsyncSchedules
    from postdate.client.async_groups.settings import AsyncSettings
    from postdate.client.async_groups.subscriptions import AsyncSubscriptions
    from postdate.client.async_groups.tenants import AsyncTenants
    from postdate.client.extended import AsyncEvents, AsyncJobs, AsyncPayments


class AsyncGroups(AsyncSender):
    """Every call of the API, by group."""

    @cached_property
    def keys(self) -> "AsyncKeys":
        """Call about keys."""
        from postdate.client.async_groups.keys import AsyncKeys

        return AsyncKeys(self)

    @cached_property
    def audit(self) -> "AsyncAudit":
        """Call about audit."""
        from postdate.client.async_groups.audit import AsyncAudit

        return AsyncAudit(self)

    @cached_property
    def halts(self) -> "AsyncHalts":
        """Call about halts."""
        from postdate.client.async_groups.halts import AsyncHalts

        return AsyncHalts(self)

    @cached_property
    def tenants(self) -> "AsyncTenants":
        """Call about tenants."""
        from postdate.client.async_groups.tenants import AsyncTenants

        return AsyncTenants(self)

    @cached_property
    def settings(self) -> "AsyncSettings":
        """Call about settings."""
        from postdate.client.async_groups.settings import AsyncSettings

        return AsyncSettings(self)

    @cached_property
    def destinations(self) -> "AsyncDestinations":
        """Call about destinations."""
        from postdate.client.async_groups.destinations import AsyncDestinations

        return AsyncDestinations(self)

    @cached_property
    def accounts(self) -> "AsyncAccounts":
        """Call about accounts."""
        from postdate.client.async_groups.accounts import AsyncAccounts

        return AsyncAccounts(self)

    @cached_property
    def payments(self) -> "AsyncPayments":
        """Call about payments."""
        from postdate.client.extended import AsyncPayments

        return AsyncPayments(self)

    @cached_property
    def jobs(self) -> "AsyncJobs":
        """Call about jobs."""
        from postdate.client.extended import AsyncJobs

        return AsyncJobs(self)

    @cached_property
    def leases(self) -> "AsyncLeases":
        """Call about leases."""
        from postdate.client.async_groups.leases import AsyncLeases

        return AsyncLeases(self)

    @cached_property
    def events(self) -> "AsyncEvents":
        """Call about events."""
        from postdate.client.extended import AsyncEvents

        return AsyncEvents(self)

    @cached_property
    def subscriptions(self) -> "AsyncSubscriptions":
        """Call about subscriptions."""
        from postdate.client.async_groups.subscriptions import AsyncSubscriptions

        return AsyncSubscriptions(self)

    @cached_property
    def lanes(self) -> "AsyncLanes":
        """Call about lanes."""
        from postdate.client.async_groups.lanes import AsyncLanes

        return AsyncLanes(self)

    @cached_property
    def dead_letters(self) -> "AsyncDeadLetters":
        """Call about dead letters."""
        from postdate.client.async_groups.dead_letters import AsyncDeadLetters

        return AsyncDeadLetters(self)

    @cached_property
    def schedules(self) -> "AsyncSchedules":
        """Call about schedules."""
        from postdate.client.async_groups.schedules import AsyncSchedules

        return AsyncSchedules(self)

    @cached_property
    def calendars(self) -> "AsyncCalendars":
        """Call about calendars."""
        from postdate.client.async_groups.calendars import AsyncCalendars

        return AsyncCalendars(self)
