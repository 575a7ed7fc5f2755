"""Check a receipt without the server: its values, its position in the chain, its signature."""

import json
from collections.abc import Collection

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from postdate.receipt.spec import (
    Receipt,
    ReceiptBody,
    ReceiptFinding,
    ReceiptValue,
    check_body,
    key_id_of,
    signed_bytes,
)


class ReceiptCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The findings about a receipt, and its content."""

    ok: bool
    key_known: bool
    """Whether the caller trusts its key."""
    findings: list[ReceiptFinding]
    key_id: str = ""
    tenant: str = ""
    kind: str = ""
    subject: str = ""
    status: str = ""
    facts: dict[str, dict[str, ReceiptValue]] = {}


def check_receipt(data: bytes, trusted: Collection[str] | None = None) -> ReceiptCheck:
    """Check a receipt; with the ids of trusted keys, refuse one that another key has signed."""
    try:
        receipt = msgspec.json.decode(data, type=Receipt)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        wrong = ReceiptFinding("document", f"This is no receipt: {error}.")
        return ReceiptCheck(ok=False, key_known=False, findings=[wrong])
    body = receipt.receipt
    findings = [*_form_findings(data, receipt), *check_body(body), *_key_findings(receipt)]
    known = trusted is not None and body.key_id in trusted
    if trusted is not None and not known:
        findings.append(ReceiptFinding("receipt.key_id", "It is none of the trusted keys."))
    return ReceiptCheck(
        ok=not findings,
        key_known=known,
        findings=findings,
        key_id=body.key_id,
        tenant=body.tenant,
        kind=body.kind,
        subject=str(body.subject),
        status=body.status,
        facts={fact.type: fact.values for fact in body.facts},
    )


def _form_findings(data: bytes, receipt: Receipt) -> list[ReceiptFinding]:
    """Find what is written in another way than receipts are, though it reads the same."""
    as_read = msgspec.json.encode(receipt, order="sorted")
    try:
        json.loads(data, object_pairs_hook=_once)
    except ValueError as error:
        return [ReceiptFinding("document", f"{error}.")]
    if msgspec.json.encode(msgspec.json.decode(data), order="sorted") == as_read:
        return []
    detail = "A value is written otherwise than it was issued."
    return [ReceiptFinding("document", detail)]


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse a name that is given twice: one reader takes the first value, another the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("A name is given twice")
    return found


def _key_findings(receipt: Receipt) -> list[ReceiptFinding]:
    body: ReceiptBody = receipt.receipt
    try:
        public, signature = bytes.fromhex(receipt.public_key), bytes.fromhex(receipt.signature)
        key = Ed25519PublicKey.from_public_bytes(public)
    except ValueError as error:
        return [ReceiptFinding("public_key", f"Key or signature cannot be read: {error}.")]
    found = []
    if (public.hex(), signature.hex()) != (receipt.public_key, receipt.signature):
        found.append(ReceiptFinding("public_key", "Key and signature are lower-case digits."))
    if key_id_of(public) != body.key_id:
        found.append(ReceiptFinding("receipt.key_id", "It is not the id of the public key."))
    try:
        key.verify(signature, signed_bytes(body))
    except InvalidSignature:
        detail = (
            "The document is not what was signed. Where nothing else is named, it is the tenant, "
            "the time of issue, or the signature itself that was changed."
        )
        found.append(ReceiptFinding("signature", detail))
    return found
