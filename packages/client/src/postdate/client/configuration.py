"""Where the server is and with which key it is called: given, set, or found in its directory.

A server writes `client.json` into its data directory; programs that run beside it need nothing
else. A key from there is used for the address from there only: no other server gets to see it.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from postdate.client.errors import ConfigurationError
from postdate.words.client_file import FILE, ClientFile

URL: Final = "POSTDATE_URL"
API_KEY: Final = "POSTDATE_API_KEY"
INTERNAL_TOKEN: Final = "POSTDATE_INTERNAL_TOKEN"  # noqa: S105 - a name, no token
DATA_DIR: Final = "POSTDATE_DATA_DIR"
DEFAULT_DATA_DIR: Final = ".postdate"
DEFAULT_URL: Final = "http://127.0.0.1:8080"
WRITABLE_BY_OTHERS: Final = 0o022
SELVES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A server and the key for it, each with its origin, which errors name."""

    url: str
    api_key: str = field(repr=False)
    url_origin: str
    key_origin: str

    def __str__(self) -> str:
        """Say what was asked, and where that is written; never the key itself."""
        return f"{self.url} (from {self.url_origin}), with the key from {self.key_origin}"


def find_server(
    url: str | None = None,
    api_key: str | None = None,
    *,
    directory: Path | None = None,
    given: str = "the program",
) -> ServerAddress:
    """Find the server: what is given comes before the environment, that before the file."""
    path = (directory or Path(os.environ.get(DATA_DIR) or DEFAULT_DATA_DIR)) / FILE
    address, url_origin = _first((url, given), (os.environ.get(URL), URL))
    key, key_origin = _first((api_key, given), (os.environ.get(API_KEY), API_KEY))
    if api_key is not None:
        key, key_origin = api_key, given
    found = None if address and key is not None else _read(path)
    if not address:
        address, url_origin = (found.url, str(path)) if found else (DEFAULT_URL, "the default")
    address = _checked_url(address)
    if key is None and found and found.api_key and _is_one_server(address, found.url):
        key, key_origin = found.api_key, str(path)
    return ServerAddress(address, _checked_key(key, address, path), url_origin, key_origin)


def _first(*given: tuple[str | None, str]) -> tuple[str | None, str]:
    return next(((value, origin) for value, origin in given if value), (None, ""))


def _read(path: Path) -> ClientFile | None:
    """Read the file of a server; one that others could have written is refused."""
    try:
        status = path.stat()
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        why = f"{path} cannot be read ({error.strerror})"
        raise ConfigurationError(f"{why}: run as its owner, or set {URL} and {API_KEY}") from error
    is_foreign = os.geteuid() not in {0, status.st_uid} and status.st_uid != 0
    if is_foreign or status.st_mode & WRITABLE_BY_OTHERS:
        raise ConfigurationError(f"others may have written {path}: set {URL} and {API_KEY}")
    try:
        found = msgspec.json.decode(text, type=ClientFile)
        _checked_url(found.url)
    except (msgspec.DecodeError, ConfigurationError) as error:
        raise ConfigurationError(f"{path} is not what a server writes: {error}") from error
    return found


def _is_one_server(one: str, other: str) -> bool:
    """Tell whether two addresses are the same port of the same machine."""
    first, second = urlsplit(one), urlsplit(other)
    hosts = {first.hostname, second.hostname}
    return (first.scheme, first.port) == (second.scheme, second.port) and (
        len(hosts) == 1 or hosts <= SELVES
    )


def _checked_url(url: str) -> str:
    """Return the address of the server, without a path."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise ConfigurationError(f"{url!r} is no address: it begins with http:// or https://")
    return url.rstrip("/").removesuffix("/api/v1")


def _checked_key(given: str | None, url: str, path: Path) -> str:
    """Return the key; a client without one is refused everywhere, so it is refused here."""
    key = (given or "").strip()
    if not key:
        raise ConfigurationError(
            f"there is no API key: pass api_key=… or set {API_KEY}; {path} has none for {url}"
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError("the API key has characters that no key has")
    return key


def read_internal_token(given: str | None) -> str | None:
    """Return the token of the internal routes, which few programs need."""
    return given or os.environ.get(INTERNAL_TOKEN) or None
