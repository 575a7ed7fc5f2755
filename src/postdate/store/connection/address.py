"""Addresses with several hosts: which of them a pool looks for."""

from typing import Final
from urllib.parse import parse_qsl, urlencode

WANTED: Final = "target_session_attrs"


def writable(dsn: str) -> str:
    """Look for the host that can be written, unless the address says what to look for."""
    return dsn if _wanted(dsn) or not _several(dsn) else _looking_for(dsn, "read-write")


def primary(dsn: str) -> str:
    """Look for the primary: our sessions for reading are read-only, so that none is writable."""
    return _looking_for(dsn, "primary") if _wanted(dsn) or _several(dsn) else dsn


def any_host(dsn: str) -> str | None:
    """Take any host, a standby before the primary; None where there is only one."""
    return _looking_for(dsn, "prefer-standby") if _several(dsn) else None


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
