"""TLS to brokers and receivers: certificates are always checked."""

import ssl
from functools import lru_cache

CONTEXTS = 64


@lru_cache(maxsize=CONTEXTS)
def tls_context(ca_pem: str | None = None) -> ssl.SSLContext:
    """Make a broker's context, for the system's authorities or a given one; raise ValueError.

    The given authority must be a certificate in PEM.
    """
    try:
        return ssl.create_default_context(cadata=ca_pem)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"no certificate in PEM: {error}") from error


@lru_cache(maxsize=1)
def receiver_context() -> ssl.SSLContext:
    """Make the context of all receivers of webhooks, for the system's authorities; this is slow."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
