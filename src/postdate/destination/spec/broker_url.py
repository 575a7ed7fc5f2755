"""Addresses of brokers, taken apart by our own rules.

A client library never sees what a tenant wrote: it is given the parts. The options that libraries
read from a URL's query name files of this machine, other protocols and other hosts.
"""

import re
from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Final
from urllib.parse import unquote

import msgspec

from postdate.destination.spec.target import (
    FOREIGN_PORTS,
    URL_CHARACTERS,
    IpAddress,
    Malformed,
    Networks,
    parse_authority,
    refuse_host,
)
from postdate.words.error import Code, Refusal

CREDENTIAL_CHARACTERS: Final = 512
KAFKA_PORT: Final = 9092

_ENCODED: Final = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=%/-]*")
"""What user, password and path of a URL may be written with."""


class BrokerUrl(msgspec.Struct, frozen=True):
    """The parts of a broker's URL; `user`, `password` and `path` are decoded."""

    scheme: str
    host: str | IpAddress
    port: int
    user: str | None = None
    password: str | None = None
    path: str = ""

    def __repr__(self) -> str:
        """Return where it leads, and no password."""
        return f"BrokerUrl({self.scheme}, {self.host}, {self.port})"


def parse_broker_url(text: str, ports: Mapping[str, int]) -> BrokerUrl | Malformed:
    """Read `scheme://user:password@host:port/path`; `ports` gives each scheme its usual port."""
    scheme, _, rest = text.partition("://")
    if why := _malformed(text, scheme, ports):
        return Malformed(why)
    authority, _, path = rest.partition("/")
    credentials, _, place = authority.rpartition("@")
    found = parse_authority(place, ports[scheme])
    if isinstance(found, Malformed):
        return found
    host, port = found
    if port in FOREIGN_PORTS:
        return Malformed(f"names port {port}, where no broker listens")
    user, colon, password = credentials.partition(":")
    parts = [_decoded(part) for part in (user, password, path)]
    if ":" in password or None in parts:
        return Malformed("has characters that must be percent-encoded, or cannot be used")
    password_given = parts[1] if colon else None
    return BrokerUrl(scheme, host, port, parts[0] or None, password_given, parts[2] or "")


def _malformed(text: str, scheme: str, ports: Mapping[str, int]) -> str | None:
    if len(text) > URL_CHARACTERS:
        return f"is longer than {URL_CHARACTERS} characters"
    if scheme not in ports:
        return f"must begin with {' or '.join(f'{name}://' for name in ports)}"
    if "?" in text or "#" in text:
        return "has a query or a fragment; options are fields of their own"
    return None


def _decoded(text: str) -> str | None:
    """Decode a part; None if it holds what would end a line of some protocol."""
    if not _ENCODED.fullmatch(text):
        return None
    try:
        decoded = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None
    return decoded if len(decoded) <= CREDENTIAL_CHARACTERS and decoded.isprintable() else None


def check_broker_url(text: str, ports: Mapping[str, int], allowed: Networks) -> Refusal | None:
    """Refuse a broker's URL that can be known to be wrong without resolving its name."""
    match parse_broker_url(text, ports):
        case Malformed(reason):
            return Refusal(Code.INVALID_FIELD, f"The broker's URL {reason}.", "config")
        case found:
            why = refuse_host(found.host, allowed)
            return Refusal(Code.TARGET_NOT_ALLOWED, f"{why}.", "config") if why else None


def kafka_broker(text: str) -> str | Malformed:
    """Read `host` or `host:port` of a Kafka broker; return the one way to write it."""
    found = parse_authority(text, KAFKA_PORT)
    if isinstance(found, Malformed):
        return found
    host, port = found
    return f"[{host}]:{port}" if isinstance(host, IPv6Address) else f"{host}:{port}"


def kafka_brokers(text: str) -> frozenset[str]:
    """Read the list that POSTDATE_KAFKA_BROKERS gives; raise ValueError naming a bad one."""
    listed = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        broker = kafka_broker(part)
        if isinstance(broker, Malformed):
            raise ValueError(f"{part!r} {broker.reason}")  # noqa: TRY004 - the text is wrong
        listed.add(broker)
    return frozenset(listed)
