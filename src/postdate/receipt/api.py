"""Receipts: signed proof of what was executed, and the keys that sign."""

from typing import Any, Final

import msgspec

from postdate.api.services import Services
from postdate.core.identity import Scope
from postdate.http.endpoint import Call, existing
from postdate.http.routes import Routes
from postdate.receipt.spec import Receipt
from postdate.words.error import Code

ROUTES: Final = Routes("receipts")


class ReceiptKeyView(msgspec.Struct, frozen=True):
    """A public key (Ed25519, 32 bytes in hexadecimal) and its id."""

    key_id: str
    public_key: str


class ReceiptKeyList(msgspec.Struct, frozen=True):
    """Every key that ever signed a receipt, the one that signs now first."""

    keys: list[ReceiptKeyView]


@ROUTES.add(
    "GET",
    "/payments/{payment_id:uuid}/receipt",
    Scope.PAYMENTS_READ,
    errors=(Code.CONFLICT, Code.SECRET_KEY_MISSING),
    limited="filtered",
)
async def get_payment_receipt(call: Call[Services, Any, None]) -> Receipt:
    """Get the receipt of a payment that has ended.

    A signed document that `postdate receipt verify` checks without the server: what was requested
    and what was done, the position of both in the tenant's chain, and the proof that its seals
    contain them.
    """
    payment_id = call.uuid("payment_id")
    found = await call.services.payment.read.find(call.actor, payment_id)
    existing(found, "payment", payment_id)
    return await call.services.receipt.issue(call.actor, "payment", payment_id)


@ROUTES.add(
    "GET",
    "/jobs/{job_id:uuid}/receipt",
    Scope.JOBS_READ,
    errors=(Code.CONFLICT, Code.SECRET_KEY_MISSING),
)
async def get_job_receipt(call: Call[Services, Any, None]) -> Receipt:
    """Get the receipt of a job that has ended.

    Like the receipt of a payment. It carries the payload and the answer as they are stored.
    """
    job_id = call.uuid("job_id")
    existing(await call.services.job.read.find(call.actor.tenant_id, job_id), "job", job_id)
    return await call.services.receipt.issue(call.actor, "job", job_id)


@ROUTES.add("GET", "/receipt-keys", None)
async def list_receipt_keys(call: Call[Services, Any, None]) -> ReceiptKeyList:
    """List the public keys of receipts.

    Needs no key: anyone who has a receipt can compare its `key_id`.
    """
    keys = await call.services.receipt.keys.published()
    return ReceiptKeyList([ReceiptKeyView(key.key_id, key.public_key.hex()) for key in keys])
