"""The buttons of a subscription: create, pause, resume, replay, delete."""

from functools import partial
from typing import Final

from postdate.console.button import Button
from postdate.console.dry_run import DryRun
from postdate.console.form_field import FieldSpec
from postdate.console.operation import BodyFields
from postdate.console.page_request import PageRequest
from postdate.console.render import amount
from postdate.console.subject import Subject, SubjectFacts
from postdate.core.identity import Scope
from postdate.http.endpoint import existing
from postdate.http.page import encode_cursor
from postdate.subscription.page.pages import target_of
from postdate.words.error import Code, refuse

POSITION_DIGITS: Final = 18


async def _read_subscription(request: PageRequest) -> SubjectFacts:
    subscription_id = request.uuid("subscription_id")
    found = await request.services.subscription.read.find(request.actor, subscription_id)
    if found is None:
        return []
    return [
        ("Sends to", target_of(found.destination)),
        ("Types", ", ".join(found.types)),
        ("Behind", f"{amount(found.lag_events)} events"),
    ]


async def _rehearse_replay(request: PageRequest, body: BodyFields) -> DryRun:
    subscription_id, actor = request.uuid("subscription_id"), request.actor
    found = await request.services.subscription.read.find(actor, subscription_id)
    row = existing(found, "subscription", subscription_id)
    last = await request.services.event.last(actor.tenant_id)
    position = _position(str(body.get("from", "")), last)
    back, ahead = max(0, row.position - position), max(0, position - row.position)
    facts = [
        ("Position", f"{row.position:,} of {last:,}"),
        ("New position", f"{position:,}"),
    ]
    if back:
        facts.append(("Sent again", f"up to {back:,} events, those of its types"))
    if ahead:
        facts.append(("Skipped", f"up to {ahead:,} events are never sent"))
    # The API names an event by the cursor of the page that ends with it.
    plan = {"from": encode_cursor(position)}
    return DryRun(count=back or ahead, noun="event", facts=facts, body=plan)


def _position(text: str, last: int) -> int:
    match text.strip().lower():
        case "beginning":
            return 0
        case "now":
            return last
        case number if _is_position(number) and int(number) <= last:
            return int(number)
        case _:
            detail = f"Give `beginning`, `now`, or the number of an event up to {last:,}."
            raise refuse(Code.INVALID_FIELD, detail, "from")


def _is_position(text: str) -> bool:
    """Return whether this is a number that can be one of an event: it is stored in 64 bits."""
    return text.isdecimal() and len(text) <= POSITION_DIGITS


_OfSubscription = partial(
    Button, subject=Subject(Scope.ADMIN, _read_subscription), back="/subscriptions"
)

BUTTONS: Final = (
    Button(
        "create_subscription",
        means="Events of these types are delivered in order, at least once.",
        confirm="Create subscription",
        fields=(
            "destination.type",
            "destination.url",
            "destination.name",
            "types",
            "accounts",
            "from",
        ),
        done="Subscription {subscription_id} was created.",
    ),
    _OfSubscription(
        "change_subscription",
        at="/subscriptions/{subscription_id:uuid}/pause",
        means="Nothing is delivered until it is resumed; then it continues where it was.",
        fields=(FieldSpec("note", required=True),),
        fixed={"paused": True},
        done="The subscription is paused: events wait until it is resumed.",
    ),
    _OfSubscription(
        "change_subscription",
        at="/subscriptions/{subscription_id:uuid}/resume",
        means="Events that were recorded meanwhile are delivered, in order.",
        fields=(),
        fixed={"paused": False},
        done="The subscription resumes where it was paused.",
    ),
    _OfSubscription(
        "replay_subscription",
        means="It continues from another event: back to send events again, forward to skip some. "
        "The receiver must tolerate the same event twice.",
        fields=(FieldSpec("from", label="After event", hint="`beginning`, `now`, or a number"),),
        rehearse=_rehearse_replay,
        done="The subscription continues from its new position.",
    ),
    _OfSubscription(
        "delete_subscription",
        means="Nothing more is delivered, and its position is lost.",
        danger=True,
        done="The subscription is deleted.",
    ),
)
