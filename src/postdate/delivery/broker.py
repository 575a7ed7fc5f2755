"""Brokers: what an adapter does for one kind of queue, and every way in which it can fail."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import msgspec

from postdate.model.errors import Code, Refusal


class Message(msgspec.Struct, frozen=True):
    """What is published. `id` is that of the job: the same over all attempts.

    Messages with the same `key` must stay in order where a broker divides what it keeps.
    """

    id: str
    subject: str
    body: bytes
    headers: Mapping[str, str]
    key: str


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every kind has: the subject of jobs that name none."""

    subject: str | None = None


class NotSentError(Exception):
    """The message has certainly not reached the broker; it may be tried again."""


class RejectedError(Exception):
    """The broker refused the message for good: too large, or a subject that cannot be."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class InDoubtError(Exception):
    """The message was sent and no confirmation came: it may be there or not."""


class Broker(Protocol):
    """One connection to a broker. `publish` returns only after the broker has confirmed."""

    async def publish(self, message: Message, timeout_seconds: float) -> None:
        """Publish and wait for the confirmation; raise one of the three errors above."""

    async def close(self) -> None:
        """Let go of the connection."""


Judge = Callable[[str, int], Awaitable[None]]
"""Raise unless a host and port may be reached; the guard that every outgoing call goes through."""

Open = Callable[[Mapping[str, Any], Judge], Awaitable[Broker]]
"""Connect with a destination's settings; raise NotSentError or RejectedError."""


class Kind(msgspec.Struct, frozen=True):
    """One kind of queue: how its settings look, how it is opened."""

    name: str
    settings: type[QueueSettings]
    open: Open

    def check(self, config: Mapping[str, Any]) -> Refusal | None:
        """Judge a destination's settings by their shape; unknown names are refused."""
        try:
            msgspec.convert(dict(config), self.settings)
        except msgspec.ValidationError as error:
            return Refusal(Code.INVALID_FIELD, f"{self.name}: {error}.", "config")
        return None
