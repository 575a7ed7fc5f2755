"""Where outgoing calls may go: check URLs and addresses without using the network.

Targets are checked twice. When a job is accepted, `check_url` checks the URL itself. When it is
delivered, the guarded connector checks every address that the name resolves to.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

import msgspec

from postdate.words.error import Code, Refusal

IpAddress = IPv4Address | IPv6Address
Networks = tuple[IPv4Network | IPv6Network, ...]

URL_CHARACTERS: Final = 2048
NAME_CHARACTERS: Final = 253
MAX_PORT: Final = 65535
PORTS: Final = {"http": 80, "https": 443}

# Services that would take a request for their own language; browsers refuse these ports too.
FOREIGN_PORTS: Final = frozenset({
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
    103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
    512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
    995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
    6669, 6679, 6697, 10080,
})  # fmt: skip

# Data stores, which matter to webhooks once a private network is allowed.
STORE_PORTS: Final = frozenset({445, 2375, 2379, 3306, 5432, 6379, 11211, 27017})

# No allow-list opens these: they reach the machine's own keys, no host, or every host at once.
NEVER: Final[Networks] = tuple(
    ip_network(text)
    for text in (
        "0.0.0.0/8",
        "168.63.129.16/32",
        "169.254.169.254/32",
        "169.254.170.2/32",
        "169.254.170.23/32",
        "100.100.100.200/32",
        "192.0.0.192/32",
        "224.0.0.0/4",
        "255.255.255.255/32",
        "::/128",
        "fd00:ec2::/32",
        "fd20:ce::254/128",
        "ff00::/8",
    )
)

# Registered as special purpose, and not what `is_global` says on every version of Python.
SPECIAL: Final[Networks] = tuple(
    ip_network(text)
    for text in (
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "240.0.0.0/4",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    )
)
GLOBAL_V6: Final = ip_network("2000::/3")
NAT64: Final = ip_network("64:ff9b::/96")

_URL: Final = re.compile(r"(?P<scheme>[A-Za-z]+)://(?P<authority>[^/?#]*)(?P<path>[^#]*)")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]]*\]|[^:\[\]]*)(?::(?P<port>[0-9]{1,5}))?")
_LABEL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_PATH: Final = re.compile(r"(?:[/?][!-~]*)?")
# The old and the new rules for international names read these differently: two hosts, one text.
_AMBIGUOUS: Final = frozenset("ßς\u200c\u200d")


class Target(msgspec.Struct, frozen=True):
    """A URL taken apart; `host` is ASCII, without brackets or final dot."""

    scheme: str
    host: str
    port: int
    path: str
    address: IpAddress | None

    @property
    def authority(self) -> str:
        """Return host and port as they stand in a URL; the usual port is left out."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Return the one way to write this URL, which every parser reads alike."""
        return f"{self.scheme}://{self.authority}{self.path}"


class Malformed(msgspec.Struct, frozen=True):
    """Why a text is not a URL that can be called."""

    reason: str


def networks(text: str) -> Networks:
    """Read a comma-separated list of networks, the form of POSTDATE_ALLOW_PRIVATE_TARGETS."""
    return tuple(ip_network(part.strip()) for part in text.split(",") if part.strip())


@lru_cache(maxsize=8192)
def check_url(url: str, allowed: Networks, field: str = "url") -> Refusal | None:
    """Refuse a URL that can be known to be wrong without resolving its name."""
    match parse(url):
        case Malformed(reason):
            return Refusal(Code.INVALID_FIELD, f"The URL {reason}.", field)
        case target:
            why = refuse_target(target, allowed)
            return Refusal(Code.TARGET_NOT_ALLOWED, f"{why}.", field) if why else None


def refuse_target(target: Target, allowed: Networks) -> str | None:
    """Return why a call may not go there, as far as the URL tells."""
    return refuse_host(target.host if target.address is None else target.address, allowed)


def refuse_host(host: str | IpAddress, allowed: Networks) -> str | None:
    """Return why nothing may connect to this host, as far as can be known without resolving it."""
    if not isinstance(host, str):
        return refuse_address(host, allowed)
    if host == "localhost" or host.endswith(".localhost"):
        return refuse_address(IPv4Address("127.0.0.1"), allowed)
    return None


def refuse_address(address: IpAddress, allowed: Networks) -> str | None:
    """Return why a call may not connect to this address, or to one that is wrapped in it."""
    for one in _unwrap(address):
        if not _reachable(one, allowed):
            return f"{address} is not a public address, and no allowed network contains it"
    return None


def _unwrap(address: IpAddress) -> Iterator[IpAddress]:
    """Return every address that a packet to this one may end at."""
    if isinstance(address, IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped  # the kernel itself calls it an IPv4 connection
        return
    yield address
    if address in NAT64:
        yield IPv4Address(address.packed[12:])
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address.packed[8:12] in {b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe"}:
        yield IPv4Address(address.packed[12:])  # ISATAP


def _reachable(address: IpAddress, allowed: Networks) -> bool:
    if any(address in network for network in NEVER):
        return False
    if any(address in network for network in allowed):
        return True
    if any(address in network for network in SPECIAL):
        return False
    if isinstance(address, IPv6Address):
        return address in GLOBAL_V6 or address in NAT64
    return address.is_global


@lru_cache(maxsize=8192)
def parse(url: str) -> Target | Malformed:
    """Take a URL apart by rules narrower than any client's, so that none reads it differently."""
    if len(url) > URL_CHARACTERS:
        return Malformed(f"is longer than {URL_CHARACTERS} characters")
    found = _URL.fullmatch(url)
    if found is None:
        return Malformed("is not of the form https://host/path; a fragment has no meaning here")
    scheme, path = found["scheme"].lower(), found["path"]
    if scheme not in PORTS:
        return Malformed("must begin with https:// or http://")
    if not _PATH.fullmatch(path):
        return Malformed("has characters in its path that must be percent-encoded")
    return _authority(scheme, found["authority"], path if path.startswith("/") else "/" + path)


def _authority(scheme: str, authority: str, path: str) -> Target | Malformed:
    if "@" in authority:
        return Malformed("carries a user name or password; put secrets into headers or the payload")
    place = parse_authority(authority, PORTS[scheme])
    if isinstance(place, Malformed):
        return place
    host, port = place
    if port in FOREIGN_PORTS or port in STORE_PORTS:
        return Malformed(f"names port {port}, where no web server listens")
    return Target(scheme, str(host), port, path, None if isinstance(host, str) else host)


def parse_authority(text: str, usual_port: int) -> tuple[str | IpAddress, int] | Malformed:
    """Read `host` or `host:port`; the host comes back as an address or as a name in ASCII."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return Malformed("has no valid host and port")
    port = usual_port if found["port"] is None else int(found["port"])
    if not 0 < port <= MAX_PORT:
        return Malformed(f"names port {port}; ports are 1 to {MAX_PORT}")
    host = _host(found["host"])
    return host if isinstance(host, Malformed) else (host, port)


def _host(text: str) -> str | IpAddress | Malformed:
    if text.startswith("["):
        return _literal_v6(text[1:-1])
    name = _ascii(text)
    if name is None or len(name) > NAME_CHARACTERS:
        return Malformed("has a host name that is not valid; write it in its ASCII form (xn--…)")
    name = name.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _literal_v4(name)
    if not all(_LABEL.fullmatch(label) for label in labels):
        return Malformed("has a host name that is not valid")
    return name


def _ascii(text: str) -> str | None:
    if text.isascii():
        return text
    if _AMBIGUOUS & set(text):
        return None
    try:
        return text.encode("idna").decode()
    except UnicodeError:
        return None


def _literal_v4(name: str) -> IPv4Address | Malformed:
    # Octal, hexadecimal and short forms are read differently by different resolvers.
    try:
        return IPv4Address(name)
    except ValueError:
        return Malformed("ends in a number but is not an IPv4 address of four decimal numbers")


def _literal_v6(text: str) -> IPv6Address | Malformed:
    try:
        address = ip_address(text)
    except ValueError:
        return Malformed("has no valid IPv6 address between its brackets")
    if not isinstance(address, IPv6Address) or address.scope_id is not None:
        return Malformed("must have an IPv6 address without a zone between its brackets")
    return address
