"""Addresses with several hosts: which of them a pool looks for, and those of other servers."""

from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

WANTED: Final = "target_session_attrs"


class DatabaseNode(NamedTuple):
    """A server of a Citus cluster as the others know it; the coordinator has the group 0."""

    group: int
    host: str
    port: int


def writable(dsn: str) -> str:
    """Look for the host that can be written, unless the address says what to look for."""
    return dsn if _wanted(dsn) or not _several(dsn) else _looking_for(dsn, "read-write")


def primary(dsn: str) -> str:
    """Look for the primary: our sessions for reading are read-only, so that none is writable."""
    return _looking_for(dsn, "primary") if _wanted(dsn) or _several(dsn) else dsn


def any_host(dsn: str) -> str | None:
    """Take any host, a standby before the primary; None where there is only one."""
    return _looking_for(dsn, "prefer-standby") if _several(dsn) else None


def of_node(dsn: str, node: DatabaseNode) -> str:
    """Write the address of another server of the cluster: only host and port differ."""
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
