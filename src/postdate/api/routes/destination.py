"""Destinations: create, read, limit, rotate, disable, test; and the tenant's own secret."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from postdate.api.http.endpoint import AnyEndpoint, Body, Call, Endpoint, Reply, existing
from postdate.api.http.page import PageQuery, next_cursor
from postdate.api.idempotency import run_once_per_key
from postdate.api.services import Services
from postdate.intake.destination.destination import (
    DestinationChange,
    DestinationSpec,
    MaxRunning,
    RatePerSecond,
    RotatedSecret,
)
from postdate.intake.destination.destination_test import DestinationTestResult
from postdate.model.destination.destination import DestinationType
from postdate.model.destination.target import URL_CHARACTERS
from postdate.model.error import Code
from postdate.model.tenant.identity import Scope
from postdate.views.destination import DestinationView, view

DAY_SECONDS: Final = 24 * 3600

Url = Annotated[str, Meta(min_length=1, max_length=URL_CHARACTERS)]
Running = Annotated[MaxRunning | None, Meta(description="Most calls at once, over all nodes.")]
Rate = Annotated[RatePerSecond | None, Meta(description="Most calls a second, over all nodes.")]


class DestinationBody(Body, kw_only=True):
    """A new destination."""

    name: Annotated[str, Meta(min_length=1, max_length=63)]
    type: DestinationType = DestinationType.WEBHOOK
    url: Annotated[Url | None, Meta(description="Where a webhook is called.")] = None
    kind: Annotated[
        Annotated[str, Meta(max_length=63)] | None, Meta(description="Which sort of queue.")
    ] = None
    config: Annotated[
        dict[str, Any] | None, Meta(description="What a queue needs; stored encrypted.")
    ] = None
    secret: Annotated[
        Annotated[str, Meta(max_length=128)] | None,
        Meta(description="`whsec_…` of your own; one is made if absent."),
    ] = None
    max_running: Running = None
    rate_per_second: Rate = None
    force: Annotated[
        bool, Meta(description="Register a queue whose broker cannot be reached just now.")
    ] = False


class DestinationPatch(Body, kw_only=True):
    """What changes; an absent field stays as it is, null takes a limit away."""

    url: Url | UnsetType = UNSET
    max_running: Running | UnsetType = UNSET
    rate_per_second: Rate | UnsetType = UNSET


class RotateBody(Body, kw_only=True):
    """How long both secrets are used."""

    overlap_seconds: Annotated[
        float,
        Meta(ge=0, le=30 * DAY_SECONDS, description="How long the secret before signs too."),
    ] = DAY_SECONDS


class DestinationDisableBody(Body, kw_only=True):
    """Why."""

    reason: Annotated[str, Meta(min_length=1, max_length=500)] = "by hand"


class CreatedDestination(DestinationView, frozen=True, kw_only=True):
    """A new destination; a webhook's secret is shown only now: a repeated answer has null."""

    secret: str | None


class SigningSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret for verifying signatures; until an instant the one before it signs too.

    The repeated answer of a rotation has null for the secret.
    """

    secret: str | None
    previous_secret_until: datetime | None


class DestinationList(msgspec.Struct, frozen=True):
    """A page of destinations, by name."""

    destinations: list[DestinationView]
    next_cursor: str | None


async def create_destination(call: Call[Services, DestinationBody, None]) -> Reply | msgspec.Struct:
    """Create a destination."""
    actor, destinations = call.actor, call.services.destination.change
    spec = DestinationSpec(**msgspec.structs.asdict(call.body))
    return await run_once_per_key(
        call,
        "destination",
        lambda remember: destinations.create(actor, spec, remember),
        lambda made: CreatedDestination(**msgspec.structs.asdict(view(made[0])), secret=made[1]),
        hide=_without_secret,
        secret=("secret", "config"),
    )


def _without_secret(shown: msgspec.Struct) -> msgspec.Struct:
    return msgspec.structs.replace(shown, secret=None)


async def list_destinations(call: Call[Services, None, PageQuery]) -> DestinationList:
    """Answer with a page of destinations."""
    after = call.query.start(str, "")
    found, following = await call.services.destination.read.page(
        call.actor.tenant_id, after, call.query.limit
    )
    return DestinationList(found, next_cursor(following))


async def get_destination(call: Call[Services, Any, Any]) -> DestinationView:
    """Answer with one destination."""
    name = call.text("name")
    return existing(
        await call.services.destination.read.get(call.actor.tenant_id, name), "destination", name
    )


async def change_destination(call: Call[Services, DestinationPatch, None]) -> DestinationView:
    """Change address and limits."""
    wanted = DestinationChange(**msgspec.structs.asdict(call.body))
    row = await call.services.destination.change.change(call.actor, call.text("name"), wanted)
    return call.services.destination.read.show(row)


async def delete_destination(call: Call[Services, None, None]) -> Reply:
    """Delete a destination."""
    await call.services.destination.change.delete(call.actor, call.text("name"))
    return Reply()


async def rotate_destination_secret(
    call: Call[Services, RotateBody, None],
) -> Reply | msgspec.Struct:
    """Create a new secret for a webhook."""
    actor, name, destinations = call.actor, call.text("name"), call.services.destination.change
    overlap_seconds = call.body.overlap_seconds
    return await run_once_per_key(
        call,
        "destination.rotate",
        lambda remember: destinations.rotate(actor, name, overlap_seconds, remember),
        _signing,
        status=200,
        hide=_without_secret,
    )


def _signing(rotated: RotatedSecret) -> SigningSecret:
    return SigningSecret(secret=rotated.secret, previous_secret_until=rotated.previous_until)


async def disable_destination(
    call: Call[Services, DestinationDisableBody, None],
) -> DestinationView:
    """Stop deliveries."""
    actor, name = call.actor, call.text("name")
    await call.services.destination.change.disable(
        actor.tenant_id, name, call.body.reason, actor.key_id
    )
    return await get_destination(call)


async def enable_destination(call: Call[Services, None, None]) -> DestinationView:
    """Resume deliveries."""
    await call.services.destination.change.enable(call.actor, call.text("name"))
    return await get_destination(call)


async def test_destination(call: Call[Services, None, None]) -> DestinationTestResult:
    """Send a test event now and return the result."""
    return await call.services.destination.test.run(call.actor, call.text("name"))


async def get_signing_secret(call: Call[Services, None, None]) -> SigningSecret:
    """Answer with the tenant's own secret."""
    return _signing(await call.services.destination.change.signing_secret(call.actor))


async def rotate_signing_secret(call: Call[Services, RotateBody, None]) -> Reply | msgspec.Struct:
    """Make a new secret of the tenant."""
    actor, destinations = call.actor, call.services.destination.change
    overlap_seconds = call.body.overlap_seconds
    return await run_once_per_key(
        call,
        "signing-secret.rotate",
        lambda remember: destinations.rotate_signing_secret(actor, overlap_seconds, remember),
        _signing,
        status=200,
        hide=_without_secret,
    )


def _endpoint(**parts: Any) -> AnyEndpoint:
    """Declare an endpoint for administrators, with what they all share."""
    return Endpoint(**({"scope": Scope.ADMIN, "tag": "destinations"} | parts))


ENDPOINTS: Final[list[AnyEndpoint]] = [
    _endpoint(
        method="POST",
        path="/destinations",
        idempotency="optional",
        handler=create_destination,
        body=DestinationBody,
        returns=CreatedDestination,
        status=201,
        summary="Create a destination; a webhook's secret is shown only now",
        description="A job or a subscription then names it instead of an address, and shares its "
        "limits.",
        errors=(
            Code.TARGET_NOT_ALLOWED,
            Code.DESTINATION_UNREACHABLE,
            Code.CONFLICT,
            Code.SECRET_KEY_MISSING,
        ),
    ),
    _endpoint(
        method="GET",
        path="/destinations",
        handler=list_destinations,
        scope=Scope.JOBS_READ,
        query=PageQuery,
        returns=DestinationList,
        summary="List destinations by name",
        description="Secrets and queue settings are not shown.",
    ),
    _endpoint(
        method="GET",
        path="/destinations/{name}",
        handler=get_destination,
        scope=Scope.JOBS_READ,
        returns=DestinationView,
        summary="Show a destination",
        description="`trouble` tells how it fares while calls to it are held back.",
        errors=(Code.NOT_FOUND,),
    ),
    _endpoint(
        method="PATCH",
        path="/destinations/{name}",
        handler=change_destination,
        body=DestinationPatch,
        returns=DestinationView,
        summary="Change address and limits",
        description="What is absent stays as it is; calls under way are not affected.",
        errors=(Code.NOT_FOUND, Code.TARGET_NOT_ALLOWED),
    ),
    _endpoint(
        method="DELETE",
        path="/destinations/{name}",
        handler=delete_destination,
        returns=None,
        status=204,
        summary="Delete a destination; jobs that still name it will fail",
        description="Its secret is forgotten; the name can be given again.",
        errors=(Code.NOT_FOUND,),
    ),
    _endpoint(
        method="POST",
        path="/destinations/{name}/rotate-secret",
        idempotency="optional",
        handler=rotate_destination_secret,
        body=RotateBody,
        returns=SigningSecret,
        summary="Make a new secret; both sign until the overlap ends",
        description="Receivers can change over while calls carry both signatures.",
        errors=(Code.NOT_FOUND, Code.CONFLICT, Code.SECRET_KEY_MISSING),
    ),
    _endpoint(
        method="POST",
        path="/destinations/{name}/disable",
        handler=disable_destination,
        body=DestinationDisableBody,
        returns=DestinationView,
        summary="Let jobs for it fail until it is enabled again",
        description="A receiver that answers 410 disables its destination in the same way.",
        errors=(Code.NOT_FOUND,),
    ),
    _endpoint(
        method="POST",
        path="/destinations/{name}/enable",
        handler=enable_destination,
        returns=DestinationView,
        summary="Let deliveries go on",
        description="Jobs that failed meanwhile are in the dead letters: redrive them there.",
        errors=(Code.NOT_FOUND,),
    ),
    _endpoint(
        method="POST",
        path="/destinations/{name}/test",
        handler=test_destination,
        returns=DestinationTestResult,
        summary="Deliver one small event now and say what came of it",
        description="No job is made and nothing is retried; the answer has status, duration and "
        "response.",
        errors=(Code.NOT_FOUND, Code.CONFLICT),
        max_seconds=15.0,
    ),
    _endpoint(
        method="GET",
        path="/signing-secret",
        handler=get_signing_secret,
        returns=SigningSecret,
        summary="Show the secret that signs jobs with a bare URL",
        description="Receivers verify with it the webhooks of jobs that name no destination.",
        errors=(Code.SECRET_KEY_MISSING,),
    ),
    _endpoint(
        method="POST",
        path="/signing-secret/rotate",
        idempotency="optional",
        handler=rotate_signing_secret,
        body=RotateBody,
        returns=SigningSecret,
        summary="Make a new one; both sign until the overlap ends",
        description="Receivers can change over while calls carry both signatures.",
        errors=(Code.SECRET_KEY_MISSING,),
    ),
]
