"""Receipts: what was executed, and the proof that its tenant's chain holds it.

A fact is carried as the bytes that its digest is taken of: a row as PostgreSQL sends it. A
reader of a receipt takes the values from them, and needs neither the server nor its tables.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from struct import error, unpack
from typing import Final, Literal
from uuid import UUID

import msgspec

from postdate.core.instant import instant_text
from postdate.event.spec.chain import (
    BLOCK_EVENTS,
    DIGEST_BYTES,
    SealContent,
    SealHead,
    block_hashes,
    head_hash,
)

VERSION: Final = 1
SIGNED: Final = b"postdate receipt\n"
"""What a signature covers begins so: nothing else that is ever signed does."""

KEY_ID_DIGITS: Final = 32

ReceiptValue = str | int | bool | None


def _names(words: str) -> tuple[str, ...]:
    return tuple(words.split())


_PAYMENT: Final = _names(
    "bucket to_bucket tenant_id payment_id from_account to_account amount due_at hold retry_until "
    "created_at description schedule_id traceparent on_broken actor idempotency_key refund_of"
)
_JOB: Final = _names(
    "bucket tenant_id job_id lane_id due_at effective_at expires_at created_at destination policy "
    "payload content_type payload_ref spread_seconds metadata description schedule_id origin_id "
    "traceparent actor idempotency_key unique_by key"
)
_OUTCOME: Final = _names(
    "bucket attempt tenant_id subject status due_at started_at finished_at transfer_id http_status "
    "execution_id code error response node_id token actor from_version to_version "
    "doubt"
)
_TRANSFER: Final = _names(
    "to_bucket amount from_account from_balance to_account to_balance created_at"
)
_EVENT: Final = _names("bucket tenant_id subject event_id time type actor data state")
COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "job.accepted": _JOB,
    "job.completed": _OUTCOME,
    "job.failed": _OUTCOME,
    "payment.scheduled": _PAYMENT,
    "payment.completed": _OUTCOME + _TRANSFER,
}
"""The columns of a fact, in the order of functions/fact.sql; all other facts are events."""

ENDS: Final[Mapping[str, str]] = {
    "job.completed": "COMPLETED",
    "job.failed": "FAILED",
    "job.cancelled": "CANCELLED",
    "payment.completed": "COMPLETED",
    "payment.failed": "FAILED",
    "payment.cancelled": "CANCELLED",
}
"""The events that end a job or payment, and the status that it then has."""

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)


class SealProof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The seal that holds a fact: its head, the hashes of its blocks, and one block whole."""

    position: int
    sealed_at: datetime
    count: int
    types: list[str]
    previous: str
    hash: str
    blocks: list[str]
    block: int
    """Which block follows, counted from 0."""
    kinds: list[int]
    subjects: list[UUID]
    events: list[UUID | None]
    digests: list[str]


class ReceiptFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fact: what it says, the bytes that say it, and where the chain holds it."""

    type: str
    event_id: UUID
    position: int
    values: dict[str, ReceiptValue]
    record: str
    seal: SealProof


class ReceiptBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is signed: what was asked for, how it ended, for whom, and by which key."""

    version: int
    tenant: str
    kind: Literal["job", "payment"]
    subject: UUID
    status: str
    issued_at: datetime
    key_id: str
    facts: list[ReceiptFact]


class Receipt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signed document that is checked without the server."""

    receipt: ReceiptBody
    public_key: str
    signature: str


class ReceiptFinding(msgspec.Struct, frozen=True):
    """What is wrong with a receipt, and where."""

    field: str
    detail: str


def key_id_of(public_key: bytes) -> str:
    """Name a key by its hash."""
    return sha256(public_key).hexdigest()[:KEY_ID_DIGITS]


def signed_bytes(body: ReceiptBody) -> bytes:
    """Return what the signature covers: JSON without spaces, its names sorted."""
    return SIGNED + msgspec.json.encode(body, order="sorted")


def prove_fact(
    kind: str, event_id: UUID, offset: int, record: bytes, sealed: tuple[SealContent, bytes, bytes]
) -> ReceiptFact:
    """Write down a fact and its offset in a seal, given with its previous hash and its own."""
    content, previous, own = sealed
    block = offset // BLOCK_EVENTS
    part = slice(block * BLOCK_EVENTS, (block + 1) * BLOCK_EVENTS)
    digests = content.digests[part.start * DIGEST_BYTES : part.stop * DIGEST_BYTES].hex()
    width = 2 * DIGEST_BYTES
    return ReceiptFact(
        type=kind,
        event_id=event_id,
        position=content.position + offset,
        values=read_record(kind, record),
        record=record.hex(),
        seal=SealProof(
            position=content.position,
            sealed_at=content.sealed_at,
            count=len(content.kinds),
            types=list(content.types),
            previous=previous.hex(),
            hash=own.hex(),
            blocks=[each.hex() for each in block_hashes(content)],
            block=block,
            kinds=list(content.kinds[part]),
            subjects=list(content.subjects[part]),
            events=list(content.events[part]),
            digests=[digests[at : at + width] for at in range(0, len(digests), width)],
        ),
    )


def read_record(kind: str, record: bytes) -> dict[str, ReceiptValue]:
    """Read the values out of a row as PostgreSQL sends it."""
    try:
        values = list(_values(record))
    except (error, IndexError, OverflowError) as wrong:
        raise ValueError("the bytes are no row") from wrong
    return dict(zip(COLUMNS.get(kind, _EVENT), values, strict=True))


def _values(record: bytes) -> Iterator[ReceiptValue]:
    [columns], at = unpack(">i", record[:4]), 4
    for _ in range(columns):
        oid, length = unpack(">ii", record[at : at + 8])
        at += 8
        yield None if length < 0 else _DECODERS.get(oid, bytes.decode)(record[at : at + length])
        at += max(length, 0)
    if at != len(record):
        raise ValueError("the row has another length")


def _integer(sent: bytes) -> int:
    return int.from_bytes(sent, "big", signed=True)


def _bytes(sent: bytes) -> str:
    return f"{len(sent)} bytes, sha256 {sha256(sent).hexdigest()}"


def _instant(sent: bytes) -> str:
    return instant_text(_EPOCH + timedelta(microseconds=_integer(sent)))


_DECODERS: Final[Mapping[int, Callable[[bytes], ReceiptValue]]] = {
    16: lambda sent: sent != b"\0",  # boolean
    17: _bytes,  # bytea: a payload or an answer
    20: _integer,
    21: _integer,
    23: _integer,
    1184: _instant,
    2950: lambda sent: str(UUID(bytes=sent)),
    3802: lambda sent: sent[1:].decode(),  # jsonb, after its version
}
"""By the number that a type has in every PostgreSQL; all others are text."""


def check_body(body: ReceiptBody) -> list[ReceiptFinding]:
    """Return what in a receipt contradicts itself or the seals that it carries."""
    found = [
        ReceiptFinding(f"receipt.facts[{number}].{field}", detail)
        for number, fact in enumerate(body.facts)
        for field, detail in _fact_findings(body.subject, fact)
    ]
    if body.version != VERSION:
        found.append(ReceiptFinding("receipt.version", f"Only version {VERSION} is known here."))
    last = body.facts[-1].type if body.facts else ""
    if ENDS.get(last) != body.status:
        found.append(ReceiptFinding("receipt.status", "The last fact does not say so."))
    if not last.startswith(f"{body.kind}."):
        found.append(ReceiptFinding("receipt.kind", "The facts are of another kind."))
    return found


def _fact_findings(subject: UUID, fact: ReceiptFact) -> Iterator[tuple[str, str]]:
    seal, place = fact.seal, fact.position - fact.seal.position
    within = place - seal.block * BLOCK_EVENTS
    width = min(BLOCK_EVENTS, seal.count - seal.block * BLOCK_EVENTS)
    sizes = {len(part) for part in (seal.kinds, seal.subjects, seal.events, seal.digests)}
    if sizes != {width} or not 0 <= within < width or not 0 <= seal.block < len(seal.blocks):
        yield "position", "It is not in the block that is shown."
        return
    address = seal.types[seal.kinds[within] - 1 : seal.kinds[within]], seal.subjects[within]
    if address != ([fact.type], subject):
        yield "type", "Another type or subject was sealed at this position."
    if (seal.events[within] or seal.subjects[within]) != fact.event_id:
        yield "event_id", "Another event was sealed at this position."
    try:
        yield from _record_findings(fact, seal.digests[within])
        yield from _seal_findings(seal, int(fact.values["tenant_id"] or 0))
    except (KeyError, TypeError, ValueError, error) as wrong:
        yield "record", f"Record or seal cannot be read: {wrong}."


def _record_findings(fact: ReceiptFact, digest: str) -> Iterator[tuple[str, str]]:
    record = bytes.fromhex(fact.record)
    if sha256(record).hexdigest() != digest:
        yield "record", "Its digest is not the one that was sealed."
    if read_record(fact.type, record) != fact.values:
        yield "values", "The record says something else."


def _seal_findings(seal: SealProof, tenant_id: int) -> Iterator[tuple[str, str]]:
    if block_hashes(_content(seal))[0].hex() != seal.blocks[seal.block]:
        yield "seal.block", "What it holds does not have its hash."
    if _hash_of(seal, tenant_id) != seal.hash:
        yield "seal.hash", "The seal does not have this hash."


def _content(seal: SealProof) -> SealContent:
    return SealContent(
        tenant_id=0,
        position=seal.position,
        sealed_at=seal.sealed_at,
        types=seal.types,
        kinds=seal.kinds,
        subjects=seal.subjects,
        events=seal.events,
        digests=bytes.fromhex("".join(seal.digests)),
    )


def _hash_of(seal: SealProof, tenant_id: int) -> str:
    head = SealHead(
        tenant_id=tenant_id,
        position=seal.position,
        sealed_at=seal.sealed_at,
        count=seal.count,
        types=seal.types,
    )
    blocks = [bytes.fromhex(each) for each in seal.blocks]
    return head_hash(bytes.fromhex(seal.previous), head, blocks).hex()
