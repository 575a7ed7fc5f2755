"""The checks of every request: key, scope, rate and halt; shared by endpoints and pages."""

import hmac
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from postdate.core.identity import Identity, Scope
from postdate.core.log import Log
from postdate.core.origin import Origin
from postdate.http.endpoint import Access, Limited
from postdate.http.login_throttle import LoginThrottle
from postdate.http.trusted_proxy import TrustedProxies
from postdate.words.error import Code, Refusal, RefusedError, refuse

Authenticate = Callable[[str], Awaitable[Identity | None]]
Translate = Callable[[Exception], Refusal | None]
"""Turn an exception of a lower layer into a refusal, if it stands for one."""
CountRequest = Callable[[Identity], Awaitable[Mapping[str, str]]]
"""Count a request against its rate limits: return the headers that show them, or refuse."""


class RequestSpan(Protocol):
    """The trace of one request."""

    @property
    def traceparent(self) -> str:
        """Return what is stored with everything that the request creates."""

    def answered(self, status: int) -> None:
        """Record the status of the answer."""


Trace = Callable[[str, str, str | None], AbstractContextManager[RequestSpan]]
"""Open a span for a request: its route, its method, and the traceparent it came with."""
CheckHalt = Callable[[int, bool], Refusal | None]
"""Returns why a change of a tenant is refused; the flag says whether it is new work."""

log = Log()


def _never_refused(_: int, __: bool) -> Refusal | None:  # noqa: FBT001 - the shape of Halted
    return None


async def _unlimited(_: Identity) -> Mapping[str, str]:
    return {}


@dataclass(slots=True, frozen=True, kw_only=True)
class Gate:
    """The checks that every request passes, with what they need from other layers."""

    authenticate: Authenticate
    internal_token: str | None = None
    translate: Translate = lambda _: None
    pace: CountRequest = _unlimited
    trace: Trace | None = None
    halted: CheckHalt = _never_refused
    freshness: Callable[[], int] = lambda: 0
    proxies: TrustedProxies = field(default_factory=TrustedProxies)
    login_throttle: LoginThrottle = field(default_factory=LoginThrottle)

    async def identify(self, key: str, came: Origin | None) -> Identity | None:
        """Find who a key belongs to, and name the tenant in the log lines of the request."""
        actor = await self.authenticate(key)
        if actor is not None and came is not None:
            came.tenant = actor.tenant
        return actor

    def check_rights(self, actor: Identity, scope: Access, limited: Limited) -> None:
        """Refuse a key that lacks a scope, or that is limited to accounts where none is meant."""
        if isinstance(scope, Scope) and not actor.allows(scope):
            raise refuse(Code.FORBIDDEN, f"The key lacks the scope `{scope}`.", scope=scope)
        if limited == "refused" and actor.accounts is not None:
            detail = "A key limited to accounts sees and changes nothing but those accounts."
            raise refuse(Code.FORBIDDEN, detail)

    def check_halt(self, actor: Identity, *, new_work: bool = False) -> None:
        """Refuse a change while the tenant is halted, before a transaction begins."""
        if refusal := self.halted(actor.tenant_id, new_work):
            raise RefusedError(refusal)

    def check_internal(self, given: bytes, address: str) -> None:
        """Refuse an internal request without the token; wrong ones count against the address."""
        if not self.internal_token or not hmac.compare_digest(given, self.internal_token.encode()):
            self.login_throttle.count_wrong_key(address, time.monotonic())
            raise refuse(Code.UNAUTHENTICATED, "The X-Internal-Auth header is not valid.")

    def explain(self, error: Exception, detail: str) -> Refusal:
        """Turn an exception into a refusal; an unexpected one is logged."""
        if isinstance(error, RefusedError):
            return error.refusal
        if (refusal := self.translate(error)) is not None:
            return refusal
        log.error("request failed", exc_info=error)
        return Refusal(Code.INTERNAL, detail)
