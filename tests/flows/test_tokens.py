"""Signed tokens beside keys: what is taken, and everything that is not."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import msgspec
import pytest
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from conftest import SECRET_KEY, Api, Clock
from postdate.database.connection.database import Database
from postdate.http.listener import bind
from postdate.http.login_throttle import LoginThrottle
from postdate.http.server import HttpServer
from postdate.key.authentication import token as token_views
from postdate.key.authentication.identity import Identities
from postdate.node import http as edge
from postdate.node import token as tokens
from postdate.node.node import Node
from postdate.node.settings import ProcessSettings
from postdate.words.error import StartError
from support.receiver import Receiver

ISSUER, AUDIENCE = "https://issuer.example", "postdate"
_MAKE: dict[str, tuple[Callable[[], Any], Any]] = {
    "RS256": (lambda: rsa.generate_private_key(65537, 2048), RSAAlgorithm),
    "ES256": (lambda: ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
    "EdDSA": (ed25519.Ed25519PrivateKey.generate, OKPAlgorithm),
}
_keys: dict[str, Any] = {name: make() for name, (make, _) in _MAKE.items()}


def listed(name: str, kid: str, key: Any = None) -> dict[str, Any]:
    """Write a public key as an issuer lists it."""
    public = (key or _keys[name]).public_key()
    return {**_MAKE[name][1].to_jwk(public, as_dict=True), "kid": kid, "use": "sig"}


@dataclass
class Issued:
    """An issuer whose keys lie in a file, and the API that takes its word."""

    api: Api
    path: Path
    verifier: token_views.Tokens
    keys: list[dict[str, Any]] = field(default_factory=list)

    def publish(self, *keys: dict[str, Any]) -> None:
        self.path.write_bytes(msgspec.json.encode({"keys": keys}))

    def sign(self, algorithm: str = "RS256", *, kid: str = "RS256", **claims: Any) -> str:
        now = self.api.node.database.unix_ms() // 1000
        whole = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "ada",
            "iat": now,
            "exp": now + 600,
            "tenant": self.api.tenant,
            "scope": "openid jobs:read payments:read",
            **claims,
        }
        given = {name: value for name, value in whole.items() if value is not None}
        return jwt.encode(given, _keys[algorithm], algorithm=algorithm, headers={"kid": kid})

    async def whoami(self, token: str) -> tuple[int, Any]:
        answer = await self.api.call("GET", "/whoami", key=token)
        return answer.status, answer.body


@pytest.fixture
async def issued(api: Api, database: Database, tmp_path: Path) -> AsyncIterator[Issued]:
    path = tmp_path / "jwks.json"
    settings = ProcessSettings(
        secret_key=SECRET_KEY, jwt_issuer=ISSUER, jwt_audience=AUDIENCE, jwt_jwks=str(path)
    )
    node = Node(settings=settings, database=database, roles=["api"])
    verifier = tokens.build(node)
    assert verifier is not None
    identities = Identities(database, LoginThrottle(free=10**9), verifier)
    server = HttpServer(edge.build(node, identities), bind("127.0.0.1", 0))
    serving = asyncio.create_task(server.run())
    async with aiohttp.ClientSession() as session:
        own = replace(api, url=server.url, session=session, node=node)
        made = Issued(own, path, verifier)
        made.publish(*(listed(name, name) for name in _keys))
        yield made
    server.stop()
    await serving
    await node.close()


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_good_token_is_who_it_says(issued: Issued, algorithm: str) -> None:
    status, body = await issued.whoami(issued.sign(algorithm, kid=algorithm))
    assert status == 200
    assert (body["tenant"], body["key_id"]) == (issued.api.tenant, "jwt:ada")
    assert body["scopes"] == ["jobs:read", "payments:read"]


async def test_its_scopes_and_limits_hold(issued: Issued) -> None:
    token = issued.sign(scope=["payments:write"], accounts=["alice"], max_amount=5)
    assert (await issued.api.call("GET", "/jobs", key=token)).status == 403
    order = {"from_account_id": "bob", "to_account_id": "alice", "amount": 1, "delay_seconds": 9}
    answer = await issued.api.call(
        "POST", "/payments/schedule", order, key=token, headers={"Idempotency-Key": "k"}
    )
    assert (answer.status, answer.body["field"]) == (403, "from_account_id")


WRONG: list[dict[str, Any]] = [
    {"iss": "https://other.example"},
    {"aud": "somebody else"},
    {"aud": None},
    {"exp": 1},
    {"exp": None},
    {"exp": "soon"},
    {"exp": 10**18},
    {"exp": 10**400},
    {"exp": 1e308},
    {"exp": float("inf")},
    {"exp": float("nan")},
    {"exp": [1]},
    {"nbf": float("nan")},
    {"nbf": {}},
    {"nbf": 2**40},
    {"iat": 2**40},
    {"sub": None},
    {"tenant": None},
    {"tenant": "no-such-tenant"},
    {"tenant": 1},
    {"tenant": "a\x00b"},
    {"tenant": "\ud800"},
    {"sub": "a\x00b"},
    {"sub": "\ud800"},
    {"scope": "openid profile"},
    {"scope": None},
    {"accounts": [1]},
    {"accounts": 5},
    {"max_amount": 0},
    {"max_amount": "5"},
    {"max_amount": 2**63},
    {"accounts": ["\x00"]},
]


async def test_a_token_that_says_something_wrong_is_refused(issued: Issued) -> None:
    for claims in WRONG:
        assert (await issued.whoami(issued.sign(**claims)))[0] == 401, claims


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(value)).rstrip(b"=").decode()


async def test_no_other_algorithm_is_taken(issued: Issued) -> None:
    good = issued.sign()
    _, claims, signature = good.split(".")
    for header in ({"alg": "none"}, {"alg": "None"}, {"alg": "HS256"}, {"alg": "RS512"}, {}):
        forged = f"{_part({**header, 'kid': 'RS256', 'typ': 'JWT'})}.{claims}"
        assert (await issued.whoami(f"{forged}.{signature}"))[0] == 401
        assert (await issued.whoami(f"{forged}."))[0] == 401
    # The classic: the public key as the secret of a symmetric signature.
    pem = (
        _keys["RS256"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    head = f"{_part({'alg': 'HS256', 'kid': 'RS256'})}.{claims}"
    mac = hmac.new(pem, head.encode(), hashlib.sha256).digest()
    forged = f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
    assert (await issued.whoami(forged))[0] == 401


async def test_a_key_verifies_only_its_own_kind(issued: Issued) -> None:
    for signed, named in (("ES256", "RS256"), ("RS256", "EdDSA"), ("EdDSA", "ES256")):
        assert (await issued.whoami(issued.sign(signed, kid=named)))[0] == 401
    weak = rsa.generate_private_key(65537, 1024)
    curve = ec.generate_private_key(ec.SECP384R1())
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "oct", "alg": "HS256"}
    encrypts = {**listed("RS256", "enc"), "use": "enc"}
    issued.publish(
        listed("RS256", "weak", weak), listed("ES256", "curve", curve), secret, encrypts, {"kid": 1}
    )
    for kid in ("weak", "curve", "oct", "enc", "unknown"):
        assert (await issued.whoami(issued.sign(kid=kid)))[0] == 401


async def test_another_hand_is_refused(issued: Issued) -> None:
    other = rsa.generate_private_key(65537, 2048)
    claims = jwt.decode(issued.sign(), options={"verify_signature": False})
    forged = jwt.encode(claims, other, algorithm="RS256", headers={"kid": "RS256"})
    assert (await issued.whoami(forged))[0] == 401
    head, body, signature = issued.sign().split(".")
    more = _part({**claims, "scope": "admin"})
    assert (await issued.whoami(f"{head}.{more}.{signature}"))[0] == 401
    assert (await issued.whoami(f"{head}.{body}.{signature[:-4]}AAAA"))[0] == 401
    assert (await issued.whoami("a.b.c"))[0] == 401


async def test_keys_are_rotated_without_a_restart(
    issued: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_views, "AGAIN_SECONDS", 0.0)
    old = issued.sign()
    assert (await issued.whoami(old))[0] == 200
    issued.publish(listed("ES256", "new"))
    assert (await issued.whoami(issued.sign("ES256", kid="new")))[0] == 200
    # The old key is gone with the next look, and what was remembered goes within three seconds.
    assert await issued.verifier.look_up(old) is None
    issued.path.write_text("not JSON")
    assert (await issued.whoami(issued.sign("ES256", kid="new", sub="eve")))[0] == 200


async def test_a_token_ends_by_the_databases_clock(issued: Issued, clock: Clock) -> None:
    token = issued.sign()
    assert (await issued.whoami(token))[0] == 200
    await clock.advance(601)
    await issued.api.node.database.synchronize()
    assert (await issued.whoami(token))[0] == 401
    await clock.set(0)
    await issued.api.node.database.synchronize()


async def test_it_makes_no_key_that_outlives_it(issued: Issued) -> None:
    token = issued.sign(scope="admin")
    body = {"scopes": ["jobs:read"]}
    answer = await issued.api.call("POST", "/keys", body, key=token)
    assert (answer.status, answer.body["field"]) == (403, "expires_at")
    claim = await issued.api.call("POST", "/lanes/default/claim", {"max": 1}, key=token)
    assert claim.status == 200


async def test_the_keys_may_come_over_the_guarded_connector(
    issued: Issued, receiver: Receiver, database: Database
) -> None:
    keys = msgspec.json.encode({"keys": [listed("EdDSA", "far")]})

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.method == "GET"
        return web.Response(body=keys)

    receiver.script("/jwks", answer)
    for allowed, found in (("127.0.0.0/8", True), ("", False)):
        settings = ProcessSettings(
            secret_key=SECRET_KEY,
            jwt_issuer=ISSUER,
            jwt_audience=AUDIENCE,
            jwt_jwks=receiver.url("/jwks"),
            allow_private_targets=allowed,
        )
        node = Node(settings=settings, database=database, roles=["api"])
        verifier = tokens.build(node)
        assert verifier is not None
        who = await verifier.look_up(issued.sign("EdDSA", kid="far"))
        assert (who is not None) is found
        await node.close()


async def test_keys_over_plain_http_are_refused(database: Database) -> None:
    settings = ProcessSettings(
        jwt_issuer=ISSUER, jwt_audience=AUDIENCE, jwt_jwks="http://issuer.example/"
    )
    node = Node(settings=settings, database=database, roles=["api"])
    with pytest.raises(StartError, match="https"):
        tokens.build(node)
