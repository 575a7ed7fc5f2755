"""Addresses with several hosts: which host a pool connects to, and addresses of other servers."""

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

WANTED: Final = "target_session_attrs"


class DatabaseNode(NamedTuple):
    """A server of a Citus cluster as the others know it; the coordinator has the group 0."""

    group: int
    host: str
    port: int


def writable(dsn: str) -> str:
    """Return the address for the writable host, unless it already says which host to use."""
    return dsn if _wanted(dsn) or not _several(dsn) else _looking_for(dsn, "read-write")


def primary(dsn: str) -> str:
    """Return the address for the primary; read-only sessions cannot ask for a writable host."""
    return _looking_for(dsn, "primary") if _wanted(dsn) or _several(dsn) else dsn


def any_host(dsn: str) -> str | None:
    """Return the address for any host, preferring a standby; None if there is only one host."""
    return _looking_for(dsn, "prefer-standby") if _several(dsn) else None


def of_node(dsn: str, node: DatabaseNode) -> str:
    """Return the address of another server of the cluster: only host and port differ."""
    before, _, after = dsn.partition("?")
    scheme, _, rest = before.partition("://")
    hosts, slash, database = rest.partition("/")
    login = hosts.rpartition("@")[0]
    kept = [pair for pair in parse_qsl(after) if pair[0] not in {"host", "port", WANTED}]
    there = urlencode([*kept, ("host", node.host), ("port", node.port)])
    return f"{scheme}://{login and login + '@'}{slash}{database}?{there}"


def _several(dsn: str) -> bool:
    """Return whether an address has several hosts, before the path or as `host=`."""
    before, _, after = dsn.partition("?")
    hosts = before.rpartition("@")[2] if "@" in before else before
    return "," in hosts or any("," in value for name, value in parse_qsl(after) if name == "host")


def _wanted(dsn: str) -> str | None:
    return dict(parse_qsl(dsn.partition("?")[2])).get(WANTED)


def _looking_for(dsn: str, wanted: str) -> str:
    before, _, after = dsn.partition("?")
    kept = [(name, value) for name, value in parse_qsl(after) if name != WANTED]
    return f"{before}?{urlencode([*kept, (WANTED, wanted)])}"
