"""Find the identity of a signed token (JWT) of an external issuer."""

import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard

import jwt
import msgspec

from postdate.core.identity import Identity, Scope
from postdate.core.log import Log
from postdate.database.connection.database import Database
from postdate.tenant.store import tenant as tenant_store

log = Log()

KEYS_SECONDS: Final = 300.0
"""How long the issuer's keys are believed before they are read again."""

AGAIN_SECONDS: Final = 10.0
"""An unknown key id has them read again, but not more often than this."""

LEEWAY_SECONDS: Final = 10.0
"""By how much the issuer's clock may be ahead of the database's."""

LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""No calendar of ours goes further; a token that claims to is not believed."""

MAX_AMOUNT: Final = 2**63 - 1

MIN_RSA_BITS: Final = 2048
_KINDS: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""The signatures that are taken, and what each must be made with: no other pair is tried."""

Fetch = Callable[[], Awaitable[bytes | None]]
"""Read the issuer's keys; None when they cannot be had just now."""


class Issuer(msgspec.Struct, frozen=True):
    """The issuer and the audience of accepted tokens."""

    issuer: str
    audience: str


class Tokens:
    """Verify tokens with the issuer's keys, by the database's clock."""

    def __init__(self, database: Database, issuer: Issuer, fetch: Fetch) -> None:
        self._database = database
        self._issuer = issuer
        self._fetch = fetch
        self._keys: dict[str, jwt.PyJWK] = {}
        self._read_at = float("-inf")

    async def look_up(self, token: str) -> Identity | None:
        """Return the identity that a token proves, or None."""
        try:
            claims = await self._claims(token)
            return None if claims is None else await self._identity(claims)
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            log.info("token.refused", error=str(error)[:200])
            return None

    async def _claims(self, token: str) -> dict[str, Any] | None:
        header = jwt.get_unverified_header(token)
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in _KINDS or not isinstance(kid, str):
            return None
        key = await self._key(kid)
        if key is None or not _fits(key, algorithm):
            return None
        claims: dict[str, Any] = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=self._issuer.audience,
            issuer=self._issuer.issuer,
            # Times are compared with the database's clock, below.
            options={
                "require": ["exp", "sub", "iss", "aud"],
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
        return claims if self._timely(claims) else None

    def _timely(self, claims: Mapping[str, Any]) -> bool:
        now = self._database.unix_ms() / 1000
        begins = max(float(claims.get("nbf", 0)), float(claims.get("iat", 0)))
        return begins - LEEWAY_SECONDS <= now < float(claims["exp"]) < LATEST

    async def _key(self, kid: str) -> jwt.PyJWK | None:
        age = time.monotonic() - self._read_at
        if age > KEYS_SECONDS or (kid not in self._keys and age > AGAIN_SECONDS):
            await self._read()
        return self._keys.get(kid)

    async def _read(self) -> None:
        """Reload the keys; if that fails, keep the last known ones."""
        self._read_at = time.monotonic()
        found = await self._fetch()
        if found is None:
            log.warning("token.keys_not_read")
            return
        try:
            listed = msgspec.json.decode(found)["keys"]
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            log.warning("token.keys_unreadable", error=str(error))
            return
        self._keys = {kid: key for one in listed if (kid := _kid(one)) and (key := _parse(one))}

    async def _identity(self, claims: Mapping[str, Any]) -> Identity | None:
        name = claims.get("tenant")
        scopes = _scopes(claims.get("scope"))
        subject = claims["sub"]
        if not _storable(name) or not _storable(subject) or not scopes:
            return None
        async with self._database.look_up() as connection:
            found = await tenant_store.enabled(connection, name)
        if found is None:
            return None
        accounts = claims.get("accounts")
        return Identity(
            tenant_id=found.tenant_id,
            tenant=name,
            test=found.test,
            key_id=f"jwt:{subject[:200]}",
            scopes=scopes,
            accounts=None if accounts is None else frozenset(map(_text, accounts)),
            max_amount=_amount(claims.get("max_amount")),
            expires_at=datetime.fromtimestamp(float(claims["exp"]), UTC),
        )


def _fits(key: jwt.PyJWK, algorithm: str) -> bool:
    """Return the only signature algorithm that a key may verify."""
    kind, curve = _KINDS[algorithm]
    if key.key_type != kind or key.public_key_use not in {None, "sig"}:
        return False
    if kind == "RSA":
        return int(key.key.key_size) >= MIN_RSA_BITS
    return bool(key._jwk_data.get("crv") == curve)  # noqa: SLF001 - PyJWK shows it nowhere else


def _kid(listed: Any) -> str | None:
    kid = listed.get("kid") if isinstance(listed, dict) else None
    return kid if isinstance(kid, str) else None


def _parse(listed: dict[str, Any]) -> jwt.PyJWK | None:
    """Parse one public key; ignore symmetric and unknown ones."""
    if listed.get("kty") not in {kind for kind, _ in _KINDS.values()} or "d" in listed:
        return None
    try:
        return jwt.PyJWK(listed)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        log.info("token.key_passed_over", error=str(error)[:200])
        return None


def _scopes(given: Any) -> frozenset[Scope]:
    """Return the known scopes; ignore the issuer's own."""
    names = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
    known = {scope.value for scope in Scope}
    return frozenset(Scope(name) for name in names if isinstance(name, str) and name in known)


def _text(value: Any) -> str:
    if not _storable(value):
        raise TypeError("an account is a text")
    return str(value)


def _storable(value: Any) -> TypeGuard[str]:
    """Return whether a value is a string that the database can store."""
    if not isinstance(value, str) or "\x00" in value:
        return False
    return not any(0xD800 <= ord(letter) <= 0xDFFF for letter in value)  # noqa: PLR2004


def _amount(value: Any) -> int | None:
    if value is not None and (type(value) is not int or not 1 <= value <= MAX_AMOUNT):
        raise ValueError("max_amount is a positive whole number")
    return value
