"""TLS to brokers: certificates are always checked, by the system's authorities or a given one."""

import ssl
from functools import lru_cache

CONTEXTS = 64


@lru_cache(maxsize=CONTEXTS)
def tls_context(ca_pem: str | None = None) -> ssl.SSLContext:
    """Make a context; raise ValueError when the given authority is not one in PEM."""
    try:
        return ssl.create_default_context(cadata=ca_pem)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"no certificate in PEM: {error}") from error
