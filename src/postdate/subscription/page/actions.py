"""Pause, resume, replay and delete a subscription."""

from collections.abc import Mapping
from typing import Any, Final

from postdate.console.action import REASON, Action, DryRun, Field, plan_of, reason_of
from postdate.console.equivalent_command import EquivalentCommand, Typed
from postdate.console.page_request import PageRequest
from postdate.core.identity import Scope
from postdate.http.endpoint import existing
from postdate.http.page import encode_cursor
from postdate.subscription.spec import ReplayBody, SubscriptionPauseBody
from postdate.words.error import Code, refuse

_PATH: Final = "/subscriptions/{subscription_id:uuid}"
POSITION_DIGITS: Final = 18


async def _pause(request: PageRequest) -> str:
    reason = reason_of(request)
    await request.services.subscription.change.switch(
        request.actor,
        request.uuid("subscription_id"),
        SubscriptionPauseBody(paused=True, note=reason),
    )
    return "The subscription is paused: events wait until it is resumed."


async def _resume(request: PageRequest) -> str:
    await request.services.subscription.change.switch(
        request.actor, request.uuid("subscription_id"), SubscriptionPauseBody(paused=False)
    )
    return "The subscription resumes where it was paused."


async def _delete(request: PageRequest) -> str:
    await request.services.subscription.change.delete(
        request.actor, request.uuid("subscription_id")
    )
    return "The subscription is deleted."


async def _rehearse_replay(request: PageRequest, given: Mapping[str, str]) -> DryRun:
    subscription_id, actor = request.uuid("subscription_id"), request.actor
    found = await request.services.subscription.read.find(actor, subscription_id)
    row = existing(found, "subscription", subscription_id)
    last = await request.services.event.last(actor.tenant_id)
    position = _position(given.get("from", ""), last)
    back, ahead = max(0, row.position - position), max(0, position - row.position)
    facts = [
        ("Position", f"{row.position:,} of {last:,}"),
        ("New position", f"{position:,}"),
    ]
    if back:
        facts.append(("Sent again", f"up to {back:,} events, those of its types"))
    if ahead:
        facts.append(("Skipped", f"up to {ahead:,} events are never sent"))
    return DryRun(count=back or ahead, noun="event", facts=facts, plan=position)


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


async def _replay(request: PageRequest) -> str:
    position: int = plan_of(request)
    await request.services.subscription.change.replay(
        request.actor,
        request.uuid("subscription_id"),
        ReplayBody(start=encode_cursor(position)),
    )
    return f"The subscription continues after event {position:,}."


def _replay_body(typed: Typed) -> dict[str, Any]:
    """Name the event as the API does: by the cursor of the page that ends with it."""
    given: str = typed["from"]
    return {"from": encode_cursor(int(given)) if _is_position(given) else given}


ACTIONS: Final = (
    Action(
        path=f"{_PATH}/pause",
        scope=Scope.ADMIN,
        limited="filtered",
        title="Pause subscription",
        button="Pause",
        means="Nothing is delivered until it is resumed; then it continues where it was.",
        back="/subscriptions",
        does=_pause,
        fields=(REASON,),
        danger=True,
        same=EquivalentCommand(
            operation="change_subscription",
            method_name="subscriptions.change",
            command="subscription pause {subscription_id} --reason {reason}",
            body=lambda typed: {"paused": True, "note": typed["reason"]},
        ),
    ),
    Action(
        path=f"{_PATH}/resume",
        scope=Scope.ADMIN,
        limited="filtered",
        title="Resume subscription",
        button="Resume",
        means="Events that were recorded meanwhile are delivered, in order.",
        back="/subscriptions",
        does=_resume,
        same=EquivalentCommand(
            operation="change_subscription",
            method_name="subscriptions.change",
            command="subscription resume {subscription_id}",
            body=lambda _: {"paused": False},
        ),
    ),
    Action(
        path=f"{_PATH}/replay",
        scope=Scope.ADMIN,
        limited="filtered",
        title="Replay subscription",
        button="Replay",
        means="It continues from another event: back to send events again, forward to skip some. "
        "The receiver must tolerate the same event twice.",
        back="/subscriptions",
        does=_replay,
        fields=(Field(name="from", label="After event", hint="beginning, now, or a number"),),
        same=EquivalentCommand(
            operation="replay_subscription",
            method_name="subscriptions.replay",
            body=_replay_body,
        ),
        rehearse=_rehearse_replay,
    ),
    Action(
        path=f"{_PATH}/delete",
        scope=Scope.ADMIN,
        limited="filtered",
        title="Delete subscription",
        button="Delete",
        means="Nothing more is delivered, and its position is lost.",
        back="/subscriptions",
        does=_delete,
        danger=True,
        same=EquivalentCommand(
            operation="delete_subscription",
            method_name="subscriptions.delete",
            command="subscription delete {subscription_id}",
        ),
    ),
)
