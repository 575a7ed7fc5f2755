"""Wire the verifier of signed tokens: the issuer, and where its keys are read."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from postdate.delivery.http_exchange import ReceiverAnswer
from postdate.destination.spec.target import Target, parse
from postdate.node.node import Node
from postdate.words.error import StartError

if TYPE_CHECKING:
    from postdate.key.authentication.token import Fetch, Tokens

FETCH_SECONDS: Final = 5.0
OK: Final = 200


def build(node: Node) -> "Tokens | None":
    """Make the verifier, if an issuer is set; only then is its library loaded."""
    settings = node.settings
    if not settings.jwt_issuer:
        return None
    from postdate.key.authentication.token import Issuer, Tokens

    place = settings.jwt_jwks
    fetch = _from_url(node, place) if "://" in place else _from_file(Path(place))
    return Tokens(node.database, Issuer(settings.jwt_issuer, settings.jwt_audience), fetch)


def _from_file(path: Path) -> "Fetch":
    async def fetch() -> bytes | None:
        try:
            return await asyncio.to_thread(path.read_bytes)
        except OSError:
            return None

    return fetch


def _from_url(node: Node, url: str) -> "Fetch":
    """Read over the guarded connector: private addresses only where the operator lists them."""
    target = parse(url)
    if not isinstance(target, Target):
        raise StartError(f"POSTDATE_JWT_JWKS is no URL that can be called: it {target.reason}")
    if target.scheme != "https" and not (target.address and target.address.is_loopback):
        raise StartError("POSTDATE_JWT_JWKS must be https: whoever changes the keys may sign")

    async def fetch() -> bytes | None:
        got = await node.outgoing.exchange.get(target, timeout_seconds=FETCH_SECONDS)
        if isinstance(got, ReceiverAnswer) and got.status == OK and got.broken is None:
            return got.body
        return None

    return fetch
