"""Models of receipts. Written by `make docs` from the endpoints."""

from datetime import datetime

from msgspec import Struct

from postdate.words.open_enum import OpenEnum


class ReceiptBodyKind(OpenEnum):
    """What `ReceiptBodyKind` may be."""

    JOB = "job"
    PAYMENT = "payment"


class SealProof(Struct, frozen=True, kw_only=True):
    """The seal that holds a fact: its head, the hashes of its blocks, and one block whole."""

    position: int
    sealed_at: datetime
    count: int
    types: list[str]
    previous: str
    hash: str
    blocks: list[str]
    block: int
    kinds: list[int]
    subjects: list[str]
    events: list[str | None]
    digests: list[str]


class ReceiptFact(Struct, frozen=True, kw_only=True):
    """One fact: what it says, the bytes that say it, and where the chain holds it."""

    type: str
    event_id: str
    position: int
    values: dict[str, str | int | bool | None]
    record: str
    seal: SealProof


class ReceiptBody(Struct, frozen=True, kw_only=True):
    """What is signed: what was asked for, how it ended, for whom, and by which key."""

    version: int
    tenant: str
    kind: ReceiptBodyKind
    subject: str
    status: str
    issued_at: datetime
    key_id: str
    facts: list[ReceiptFact]


class Receipt(Struct, frozen=True, kw_only=True):
    """A signed document that is checked without the server."""

    receipt: ReceiptBody
    public_key: str
    signature: str


class ReceiptKey(Struct, frozen=True, kw_only=True):
    """A public key (Ed25519, 32 bytes in hexadecimal) and its id."""

    key_id: str
    public_key: str


class ReceiptKeyList(Struct, frozen=True, kw_only=True):
    """Every key that ever signed a receipt, the one that signs now first."""

    keys: list[ReceiptKey]
