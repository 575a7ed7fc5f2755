"""Where the server is and with which key it is called: given, or from the environment."""

import os
from typing import Final

from postdate.client.errors import ConfigurationError

URL: Final = "POSTDATE_URL"
API_KEY: Final = "POSTDATE_API_KEY"
INTERNAL_TOKEN: Final = "POSTDATE_INTERNAL_TOKEN"  # noqa: S105 - a name, no token
DEFAULT_URL: Final = "http://127.0.0.1:8080"


def read_url(given: str | None) -> str:
    """Return the address of the server, without a path."""
    url = given or os.environ.get(URL) or DEFAULT_URL
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"{url!r} is no address: it begins with http:// or https://")
    return url.rstrip("/").removesuffix("/api/v1")


def read_key(given: str | None) -> str:
    """Return the key; a client without one is refused everywhere, so it is refused here."""
    key = (os.environ.get(API_KEY, "") if given is None else given).strip()
    if not key:
        raise ConfigurationError(f"there is no API key: pass api_key=…, or set {API_KEY}")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError("the API key has characters that no key has")
    return key


def read_internal_token(given: str | None) -> str | None:
    """Return the token of the internal routes, which few programs need."""
    return given or os.environ.get(INTERNAL_TOKEN) or None
