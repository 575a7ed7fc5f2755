"""The groups of calls of a client. Written by `make docs` from the endpoints."""

from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic

from postdate.client.call import Caller, K

if TYPE_CHECKING:
    from postdate.client.calls.audit import Audit
    from postdate.client.calls.bulk_actions import BulkActions
    from postdate.client.calls.calendars import Calendars
    from postdate.client.calls.change_sets import ChangeSets
    from postdate.client.calls.dead_letters import DeadLetters
    from postdate.client.calls.foresight import Foresight
    from postdate.client.calls.halts import Halts
    from postdate.client.calls.keys import Keys
    from postdate.client.calls.leases import Leases
    from postdate.client.calls.receipts import Receipts
    from postdate.client.calls.settings import Settings
    from postdate.client.calls.subscriptions import Subscriptions
    from postdate.client.calls.tenants import Tenants
    from postdate.client.calls.test_clock import TestClock
    from postdate.client.extended import (
        Accounts,
        Destinations,
        Events,
        Jobs,
        Lanes,
        Payments,
        Schedules,
    )

EXTENDED: Final = frozenset(
    {"accounts", "destinations", "events", "jobs", "lanes", "payments", "schedules"}
)
"""Groups to which `extended.py` adds calls that are more than one request."""


class Groups(Caller, Generic[K]):
    """Every call of the API, by group; each is loaded when first asked for."""

    keys: "Keys[K]"
    """Calls about keys."""
    audit: "Audit[K]"
    """Calls about audit."""
    halts: "Halts[K]"
    """Calls about halts."""
    tenants: "Tenants[K]"
    """Calls about tenants."""
    settings: "Settings[K]"
    """Calls about settings."""
    destinations: "Destinations[K]"
    """Calls about destinations."""
    accounts: "Accounts[K]"
    """Calls about accounts."""
    payments: "Payments[K]"
    """Calls about payments."""
    jobs: "Jobs[K]"
    """Calls about jobs."""
    leases: "Leases[K]"
    """Calls about leases."""
    events: "Events[K]"
    """Calls about events."""
    subscriptions: "Subscriptions[K]"
    """Calls about subscriptions."""
    lanes: "Lanes[K]"
    """Calls about lanes."""
    dead_letters: "DeadLetters[K]"
    """Calls about dead letters."""
    schedules: "Schedules[K]"
    """Calls about schedules."""
    calendars: "Calendars[K]"
    """Calls about calendars."""
    foresight: "Foresight[K]"
    """Calls about foresight."""
    receipts: "Receipts[K]"
    """Calls about receipts."""
    change_sets: "ChangeSets[K]"
    """Calls about change sets."""
    bulk_actions: "BulkActions[K]"
    """Calls about bulk actions."""
    test_clock: "TestClock[K]"
    """Calls about test clock."""

    if not TYPE_CHECKING:  # A type checker holds to the annotations.

        def __getattr__(self, name: str) -> object:
            """Load a group: its annotation names the class."""
            kind = Groups.__annotations__.get(name, "").partition("[")[0]
            if not kind:
                raise AttributeError(f"a client has no {name}", name=name, obj=self)
            home = "extended" if name in EXTENDED else f"calls.{name}"
            found = getattr(import_module(f"postdate.client.{home}"), kind)(self)
            setattr(self, name, found)
            return found
