"""Destinations: create, read, limit, rotate, disable, test; and the tenant's own secret."""

from typing import Final

import msgspec

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.destination.change.destination import Destinations
from postdate.destination.change.destination_test import DestinationTestResult
from postdate.destination.spec.destination import RotateBody, SigningSecret
from postdate.destination.view.destination import DestinationViews
from postdate.http.endpoint import Call, Reply
from postdate.intake.answer_once import run_once_per_key
from postdate.resource.endpoints import ServedClass, serve
from postdate.words.error import Code

ROUTES: Final = serve(
    "destinations",
    ServedClass(DestinationViews, lambda services: services.destination.read),
    ServedClass(Destinations, lambda services: services.destination.change),
)


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
    return await call.services.destination.change.signing_secret(call.actor)


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
        lambda made: made,
        status=200,
        hide=lambda shown: msgspec.structs.replace(shown, secret=None),
    )
