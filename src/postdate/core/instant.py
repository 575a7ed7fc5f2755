"""Instants as text: RFC 3339 in UTC, with a Z, wherever we write them ourselves."""

from datetime import UTC, datetime


def instant_text(at: datetime) -> str:
    """Write an instant as the API, events and logs do; msgspec writes the same."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")
