"""Find the address of a client behind proxies; only proxies listed by the operator are trusted."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

HOPS: Final = 10
"""How many addresses of `X-Forwarded-For` are read, from the nearest on."""

Network = IPv4Network | IPv6Network


def networks(listed: str) -> tuple[Network, ...]:
    """Read a comma-separated list of networks."""
    return tuple(ip_network(each.strip()) for each in listed.split(",") if each.strip())


class TrustedProxies:
    """The operator's own proxies, whose `X-Forwarded-For` is trusted."""

    def __init__(self, listed: Sequence[Network] = ()) -> None:
        self._listed = tuple(listed)
        self.trusts = lru_cache(maxsize=1024)(self._trusts)

    def _trusts(self, address: str) -> bool:
        try:
            found = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(found, "ipv4_mapped", None) or found
        return any(mapped in network for network in self._listed)

    def client(self, peer: str, forwarded: bytes | None) -> str:
        """Return the nearest address that is not a trusted proxy's."""
        if forwarded is None or not self._listed or not self.trusts(peer):
            return peer
        nearest = peer
        for given in reversed(forwarded[-1024:].split(b",")[-HOPS:]):
            address = _address(given.strip().decode("latin-1"))
            if address is None:
                return nearest
            nearest = address
            if not self.trusts(address):
                return nearest
        return nearest


def _address(given: str) -> str | None:
    """Read one address, with or without a port."""
    if given.startswith("["):
        given = given[1:].partition("]")[0]
    elif given.count(":") == 1:
        given = given.partition(":")[0]
    try:
        return str(ip_address(given))
    except ValueError:
        return None
