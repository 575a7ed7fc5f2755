"""Limit requests that stay open: streams, long polls, and bodies still being received."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from postdate.core.identity import Identity
from postdate.words.error import Code, RefusedError, refuse

AGAIN_SECONDS: Final = 5
"""The `Retry-After` of a client that has too many open requests."""


class OpenLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests of one kind may be open at once in this process."""

    per_key: int = 256
    per_tenant: int = 512
    per_address: int = 512
    total: int = 2048


class OpenRequests:
    """Counts the requests of one kind that are open now, by key, tenant and address."""

    def __init__(self, noun: str, limits: OpenLimits) -> None:
        self._noun = noun
        self._limits = limits
        self._total = 0
        self._counts: dict[tuple[str, str | int], int] = {}

    def __len__(self) -> int:
        return self._total

    @contextmanager
    def hold(self, actor: Identity | None, address: str) -> Iterator[None]:
        """Count a request for as long as the block runs; refuse it where there are too many."""
        owners = self._owners(actor, address)
        self._admit(owners)
        self._total += 1
        for owner, _ in owners:
            self._counts[owner] = self._counts.get(owner, 0) + 1
        try:
            yield
        finally:
            self._total -= 1
            for owner, _ in owners:
                self._leave(owner)

    def _owners(
        self, actor: Identity | None, address: str
    ) -> list[tuple[tuple[str, str | int], int]]:
        owners: list[tuple[tuple[str, str | int], int]] = [
            (("address", address), self._limits.per_address)
        ]
        if actor is not None:
            owners.append((("key", actor.key_id), self._limits.per_key))
            owners.append((("tenant", actor.tenant_id), self._limits.per_tenant))
        return owners

    def _admit(self, owners: list[tuple[tuple[str, str | int], int]]) -> None:
        for owner, limit in owners:
            if self._counts.get(owner, 0) >= limit:
                raise self._refused(owner[0], limit)
        if self._total >= self._limits.total:
            raise refuse(Code.OVERLOADED, f"Too many {self._noun} are open here.")

    def _refused(self, owner: str, limit: int) -> RefusedError:
        detail = f"This {owner} has {limit} {self._noun} open, which is its limit."
        return refuse(
            Code.TOO_MANY_OPEN, detail, limited_by=owner, retry_after_seconds=AGAIN_SECONDS
        )

    def _leave(self, owner: tuple[str, str | int]) -> None:
        left = self._counts[owner] - 1
        if left:
            self._counts[owner] = left
        else:
            del self._counts[owner]
