"""Destinations: create, read, limit, rotate, disable, test; and the tenant's own secret."""

from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.destination.change.destination import (
    DestinationChange,
    DestinationSpec,
    MaxRunning,
    RatePerSecond,
    RotatedSecret,
)
from postdate.destination.change.destination_test import DestinationTestResult
from postdate.destination.spec.destination import DestinationType
from postdate.destination.spec.target import URL_CHARACTERS
from postdate.destination.view.destination import DestinationView, view
from postdate.http.endpoint import Body, Call, Reply, existing
from postdate.http.page import PageQuery, next_cursor
from postdate.http.routes import Routes
from postdate.intake.answer_once import run_once_per_key
from postdate.words.error import Code

ROUTES: Final = Routes("destinations")

DAY_SECONDS: Final = 24 * 3600

Url = Annotated[str, Meta(min_length=1, max_length=URL_CHARACTERS)]
Running = Annotated[
    MaxRunning | None, Meta(description="Maximum concurrent calls, across all nodes.")
]
Rate = Annotated[
    RatePerSecond | None, Meta(description="Maximum calls per second, across all nodes.")
]


class DestinationBody(Body, kw_only=True):
    """A new destination."""

    name: Annotated[str, Meta(min_length=1, max_length=63)]
    type: DestinationType = DestinationType.WEBHOOK
    url: Annotated[Url | None, Meta(description="The webhook's URL.")] = None
    kind: Annotated[
        Annotated[str, Meta(max_length=63)] | None, Meta(description="The kind of queue.")
    ] = None
    config: Annotated[
        dict[str, Any] | None, Meta(description="The settings of a queue; stored encrypted.")
    ] = None
    secret: Annotated[
        Annotated[str, Meta(max_length=128)] | None,
        Meta(description="Your own `whsec_…` secret; generated if absent."),
    ] = None
    max_running: Running = None
    rate_per_second: Rate = None
    force: Annotated[
        bool, Meta(description="Register a queue even if its broker cannot be reached.")
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
        Meta(ge=0, le=30 * DAY_SECONDS, description="How long the previous secret signs as well."),
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


@ROUTES.add(
    "POST",
    "/destinations",
    Scope.ADMIN,
    returns=CreatedDestination,
    idempotency="optional",
    status=201,
    errors=(
        Code.TARGET_NOT_ALLOWED,
        Code.DESTINATION_UNREACHABLE,
        Code.SECRET_KEY_MISSING,
    ),
)
async def create_destination(call: Call[Services, DestinationBody, None]) -> Reply | msgspec.Struct:
    """Create a destination; a webhook's secret is shown only now.

    A job or a subscription then names it instead of an address, and shares its limits.
    """
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


@ROUTES.add("GET", "/destinations", Scope.JOBS_READ)
async def list_destinations(call: Call[Services, None, PageQuery]) -> DestinationList:
    """List destinations by name.

    Secrets and queue settings are not shown.
    """
    after = call.query.start(str, "")
    found, following = await call.services.destination.read.page(
        call.actor.tenant_id, after, call.query.limit
    )
    return DestinationList(found, next_cursor(following))


@ROUTES.add("GET", "/destinations/{name}", Scope.JOBS_READ)
async def get_destination(call: Call[Services, Any, Any]) -> DestinationView:
    """Show a destination.

    `trouble` shows its state while calls to it are held back.
    """
    name = call.text("name")
    return existing(
        await call.services.destination.read.find(call.actor.tenant_id, name), "destination", name
    )


@ROUTES.add("PATCH", "/destinations/{name}", Scope.ADMIN, errors=(Code.TARGET_NOT_ALLOWED,))
async def change_destination(call: Call[Services, DestinationPatch, None]) -> DestinationView:
    """Change the address and limits of a destination.

    Absent fields stay as they are; running calls are not affected.
    """
    wanted = DestinationChange(**msgspec.structs.asdict(call.body))
    row = await call.services.destination.change.change(call.actor, call.text("name"), wanted)
    return await call.services.destination.read.show(row)


@ROUTES.add("DELETE", "/destinations/{name}", Scope.ADMIN)
async def delete_destination(call: Call[Services, None, None]) -> Reply:
    """Delete a destination; jobs that name it will fail.

    Its secret is deleted; the name can be reused.
    """
    await call.services.destination.change.delete(call.actor, call.text("name"))
    return Reply()


@ROUTES.add(
    "POST",
    "/destinations/{name}/rotate-secret",
    Scope.ADMIN,
    returns=SigningSecret,
    idempotency="optional",
    errors=(Code.SECRET_KEY_MISSING,),
)
async def rotate_destination_secret(
    call: Call[Services, RotateBody, None],
) -> Reply | msgspec.Struct:
    """Rotate a destination's secret; both sign until the overlap ends.

    Receivers can change over while calls carry both signatures.
    """
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


@ROUTES.add("POST", "/destinations/{name}/disable", Scope.ADMIN)
async def disable_destination(
    call: Call[Services, DestinationDisableBody, None],
) -> DestinationView:
    """Disable a destination: its jobs fail until it is enabled again.

    A receiver that answers 410 disables its destination in the same way.
    """
    actor, name = call.actor, call.text("name")
    await call.services.destination.change.disable(
        actor.tenant_id, name, call.body.reason, actor.key_id
    )
    return await get_destination(call)


@ROUTES.add("POST", "/destinations/{name}/enable", Scope.ADMIN)
async def enable_destination(call: Call[Services, None, None]) -> DestinationView:
    """Enable a destination.

    Jobs that failed meanwhile are in the dead letters: redrive them there.
    """
    await call.services.destination.change.enable(call.actor, call.text("name"))
    return await get_destination(call)


@ROUTES.add("POST", "/destinations/{name}/test", Scope.ADMIN, max_seconds=15.0)
async def test_destination(call: Call[Services, None, None]) -> DestinationTestResult:
    """Send a test event to a destination and return the result.

    No job is created and nothing is retried; the answer has status, duration and response.
    """
    return await call.services.destination.test.run(call.actor, call.text("name"))


@ROUTES.add("GET", "/signing-secret", Scope.ADMIN, errors=(Code.SECRET_KEY_MISSING,))
async def get_signing_secret(call: Call[Services, None, None]) -> SigningSecret:
    """Show the secret that signs jobs with a bare URL.

    Receivers verify with it the webhooks of jobs that name no destination.
    """
    return _signing(await call.services.destination.change.signing_secret(call.actor))


@ROUTES.add(
    "POST",
    "/signing-secret/rotate",
    Scope.ADMIN,
    returns=SigningSecret,
    idempotency="optional",
    errors=(Code.SECRET_KEY_MISSING,),
)
async def rotate_signing_secret(call: Call[Services, RotateBody, None]) -> Reply | msgspec.Struct:
    """Rotate the tenant's signing secret; both sign until the overlap ends.

    Receivers can change over while calls carry both signatures.
    """
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
