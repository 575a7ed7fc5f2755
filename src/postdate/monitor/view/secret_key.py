"""Secret keys that nodes lack: which secrets of a tenant need them, and who has them."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec

from postdate.runtime.node import LIVE_SECONDS, NodeKeys
from postdate.secret.secret import KeyNeed

Role = Literal["worker", "api"]

NEEDED_BY: Final[dict[Role, frozenset[str]]] = {
    "worker": frozenset({"destination", "url", "payload"}),
    "api": frozenset({"payload"}),
}
"""What nodes of a role open: some deliver, others hand payloads to workers that pull."""

NAMED_SECRETS: Final = 3
"""How many destinations a problem names; of more it says that there are others."""


class MissingKey(msgspec.Struct, frozen=True, kw_only=True):
    """A secret key that some live nodes of a role lack, or all of them."""

    key_id: int
    role: Role
    needs: list[KeyNeed]
    lacking: int
    having: int
    since: datetime

    @property
    def name(self) -> str:
        """Write the key as the log and `/readyz` name it."""
        return key_name(self.key_id)

    @property
    def what(self) -> str:
        """Say what it opens."""
        names = sorted(need.name for need in self.needs if need.kind == "destination")
        others = " and others" if names[NAMED_SECRETS:] else ""
        parts = [f"the secrets of {', '.join(names[:NAMED_SECRETS])}{others}"]
        parts = parts if names else []
        kinds = {need.kind for need in self.needs}
        parts += ["the secret that signs calls of bare URLs"] if "url" in kinds else []
        parts += ["encrypted payloads"] if "payload" in kinds else []
        return " and ".join(parts)


def key_name(key_id: int) -> str:
    """Write the id of a key."""
    return f"{key_id:08x}"


def find_missing(
    needs: Sequence[KeyNeed], nodes: Sequence[NodeKeys], now: datetime
) -> list[MissingKey]:
    """Return the keys that a tenant's secrets need and that live nodes lack."""
    found: list[MissingKey] = []
    for role, kinds in NEEDED_BY.items():
        own = [node for node in nodes if role in node.roles]
        for key_id in sorted({need.key_id for need in needs if need.kind in kinds}):
            wanted = [need for need in needs if need.key_id == key_id and need.kind in kinds]
            found += _missing(key_id, role, wanted, own, now)
    return found


def _missing(
    key_id: int, role: Role, needs: list[KeyNeed], nodes: list[NodeKeys], now: datetime
) -> Iterable[MissingKey]:
    live = [node for node in nodes if now - node.seen_at <= timedelta(seconds=LIVE_SECONDS)]
    lacking = [node for node in live if key_id not in node.secret_keys]
    having = len(live) - len(lacking)
    if not lacking:
        return
    had = [node.seen_at for node in nodes if key_id in node.secret_keys]
    began = min(node.started_at for node in lacking)
    yield MissingKey(
        key_id=key_id,
        role=role,
        needs=needs,
        lacking=len(lacking),
        having=having,
        # Without it since the last node that had it fell silent.
        since=began if having or not had else max(began, *had),
    )
