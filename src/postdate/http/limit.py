"""The limits of a request, with their defaults."""

import msgspec

from postdate.http.open_request import OpenLimits


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may cost. An endpoint may raise `body_bytes` and `handler_seconds`."""

    body_bytes: int = 256 * 1024
    """The largest body of an ordinary route; larger ones get 413."""

    json_depth: int = 32
    """How deeply objects and arrays may nest; deeper ones get 422."""

    receive_seconds: float = 10.0
    """The time for the whole body to arrive; slower ones get 408."""

    handler_seconds: float = 15.0
    """The time for a handler to answer; slower ones get 503."""

    open: OpenLimits = OpenLimits()
    """How many streams, long polls and half-sent bodies there may be at once."""
