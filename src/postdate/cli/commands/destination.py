"""`postdate destination` and `postdate subscription`: where jobs and events go."""

from typing import Annotated

import cyclopts
from cyclopts import Parameter
from msgspec import UNSET

from postdate.cli.choice import DecimalOrNone, WholeOrNone
from postdate.cli.output import show
from postdate.cli.remote import (
    DestinationName,
    Limit,
    Reason,
    call,
    changed,
    given,
    limit_of,
    listed,
    one,
    parse,
)

destination_app = cyclopts.App(
    name="destination", help="Create, change, try, disable and delete destinations."
)
subscription_app = cyclopts.App(
    name="subscription", help="List, pause, resume and replay subscriptions."
)


@destination_app.command(name="create")
def destination_create(body: str) -> None:
    """Create a destination from the JSON that `POST /destinations` takes; a secret is shown now."""
    show(call("POST", "/destinations", parse(body)))


@destination_app.command(name="list")
def destination_list(*, limit: Limit = 20) -> None:
    """List the destinations."""
    listed("/destinations", "destinations", limit=limit)


@destination_app.command(name="get")
def destination_get(name: DestinationName) -> None:
    """Show a destination."""
    show(call("GET", one("/destinations", name)))


@destination_app.command(name="change")
def destination_change(
    name: DestinationName,
    *,
    url: str | None = None,
    max_running: WholeOrNone = None,
    rate_per_second: DecimalOrNone = None,
) -> None:
    """Change the address or the limits of a destination; what is not given stays."""
    body = changed(
        url=UNSET if url is None else url,
        max_running=limit_of(max_running),
        rate_per_second=limit_of(rate_per_second),
    )
    show(call("PATCH", one("/destinations", name), body))


@destination_app.command(name="delete")
def destination_delete(name: DestinationName) -> None:
    """Delete a destination that no open job needs."""
    call("DELETE", one("/destinations", name))
    show({"name": name, "deleted": True})


@destination_app.command(name="test")
def destination_test(name: DestinationName) -> None:
    """Send a trial call, and say how it was answered."""
    show(call("POST", one("/destinations", name, "test")))


@destination_app.command(name="disable")
def destination_disable(name: DestinationName, *, reason: Reason = None) -> None:
    """Call a destination no more; its jobs wait."""
    body = given(reason=reason)
    show(call("POST", one("/destinations", name, "disable"), body))


@destination_app.command(name="enable")
def destination_enable(name: DestinationName) -> None:
    """Call a destination again."""
    show(call("POST", one("/destinations", name, "enable")))


@destination_app.command(name="rotate-secret")
def destination_rotate(name: DestinationName, *, overlap_seconds: float | None = None) -> None:
    """Give a webhook another secret, shown now; both sign for a while."""
    body = given(overlap_seconds=overlap_seconds)
    show(call("POST", one("/destinations", name, "rotate-secret"), body))


@subscription_app.command(name="create")
def subscription_create(body: str) -> None:
    """Create a subscription from the JSON that `POST /subscriptions` takes."""
    show(call("POST", "/subscriptions", parse(body)))


@subscription_app.command(name="list")
def subscription_list(*, limit: Limit = 20) -> None:
    """List the subscriptions, how far behind each is, and what is wrong."""
    listed("/subscriptions", "subscriptions", limit=limit)


@subscription_app.command(name="get")
def subscription_get(subscription_id: str) -> None:
    """Show a subscription."""
    show(call("GET", one("/subscriptions", subscription_id)))


@subscription_app.command(name="pause")
def subscription_pause(subscription_id: str, *, reason: Reason = None) -> None:
    """Deliver no event until it is resumed; none is lost."""
    body = given(paused=True, note=reason)
    show(call("PATCH", one("/subscriptions", subscription_id), body))


@subscription_app.command(name="resume")
def subscription_resume(subscription_id: str) -> None:
    """Deliver on from where it stopped."""
    show(call("PATCH", one("/subscriptions", subscription_id), {"paused": False}))


@subscription_app.command(name="replay")
def subscription_replay(
    subscription_id: str,
    start: Annotated[str, Parameter(help="`beginning`, `now`, or a sequence number.")],
) -> None:
    """Deliver again from some point on."""
    body = {"from": int(start) if start.isdecimal() else start}
    show(call("POST", one("/subscriptions", subscription_id, "replay"), body))


@subscription_app.command(name="delete")
def subscription_delete(subscription_id: str) -> None:
    """End a subscription."""
    call("DELETE", one("/subscriptions", subscription_id))
    show({"subscription_id": subscription_id, "deleted": True})
