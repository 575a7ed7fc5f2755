"""A receiver whose certificate nobody vouches for gets no byte of the payload."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from postdate.delivery import connection_pool
from postdate.job.spec.outcome import Completed, Failed
from support.hostile_receiver import Hostile, hostile, status
from support.webhook import delivery, setup


def certificate(folder: Path) -> Path:
    """Write a certificate for 127.0.0.1 that only vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file = folder / "certificate.pem"
    file.write_bytes(pem + built.public_bytes(serialization.Encoding.PEM))
    return file


@contextlib.asynccontextmanager
async def secure(file: Path) -> AsyncIterator[Hostile]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    running = Hostile(status(200))
    server = await asyncio.start_server(running.accept, "127.0.0.1", 0, ssl=context)
    running.port = server.sockets[0].getsockname()[1]
    yield running
    server.close()
    await running.close()


async def test_an_unknown_certificate_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    async with secure(certificate(tmp_path)) as server, setup() as calls:
        outcome = await calls.deliver(delivery(f"https://127.0.0.1:{server.port}/"))
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.retryable) == ("tls_failed", True)
        assert server.requests == []


async def test_a_trusted_certificate_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = certificate(tmp_path)
    async with secure(file) as server, setup() as calls:
        trusting = ssl.create_default_context(cafile=str(file))
        monkeypatch.setattr(connection_pool, "receiver_context", lambda: trusting)
        outcome = await calls.deliver(delivery(f"https://127.0.0.1:{server.port}/"))
        assert isinstance(outcome, Completed)
        assert len(server.requests) == 1


async def test_a_receiver_that_speaks_no_tls_gets_nothing() -> None:
    async with hostile(status(200)) as server, setup() as calls:
        url = f"https://127.0.0.1:{server.port}/"
        outcome = await calls.deliver(delivery(url, timeout_seconds=2))
        assert isinstance(outcome, Failed)
        assert outcome.code in {"tls_failed", "connect_failed", "connect_timeout"}
        assert server.requests == []
