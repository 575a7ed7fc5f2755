"""Issue receipts: the facts of what has ended, their proofs, and a signature."""

from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from postdate.core.identity import Identity
from postdate.database.connection.database import Database
from postdate.receipt import store
from postdate.receipt.spec import (
    ENDS,
    VERSION,
    Receipt,
    ReceiptBody,
    ReceiptFact,
    prove_fact,
    signed_bytes,
)
from postdate.receipt.store import SealedFact
from postdate.secret.receipt_key import ReceiptKeys
from postdate.words.error import Code, refuse


class ReceiptViews:
    """Issues receipts."""

    def __init__(self, database: Database, keys: ReceiptKeys) -> None:
        self._database = database
        self.keys = keys

    async def issue(
        self, actor: Identity, kind: Literal["job", "payment"], subject: UUID
    ) -> Receipt:
        """Write the receipt of a job or payment of the caller's tenant."""
        reader = self._database.tenant_reader(actor.tenant_id)
        found = await store.facts(reader, actor.tenant_id, subject, ENDS)
        if not any(each.type in ENDS for each in found):
            detail = f"The {kind} has not ended, so it has no receipt yet."
            raise refuse(Code.CONFLICT, detail)
        proved = [_proved(each) for each in found]
        key, private = await self.keys.signer()
        body = ReceiptBody(
            version=VERSION,
            tenant=actor.tenant,
            kind=kind,
            subject=subject,
            status=ENDS[proved[-1].type],
            issued_at=datetime.fromtimestamp(self._database.unix_ms() / 1000, UTC),
            key_id=key.key_id,
            facts=proved,
        )
        signature = private.sign(signed_bytes(body))
        return Receipt(receipt=body, public_key=key.public_key.hex(), signature=signature.hex())


def _proved(fact: SealedFact) -> ReceiptFact:
    if fact.seal is None or fact.offset is None:
        detail = "Its events are not sealed yet: try again in a second."
        raise refuse(Code.CONFLICT, detail, retry_after_seconds=1)
    if fact.record is None:
        raise refuse(Code.CONFLICT, f"The fact {fact.type} was removed; only its digest is kept.")
    return prove_fact(fact.type, fact.event_id, fact.offset, fact.record, fact.seal)
