"""Calls about receipts. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from uuid import UUID

from postdate.client.call import Group, K, call
from postdate.client.models.receipts import Receipt, ReceiptKeyList


class Receipts(Group[K]):
    """What the API offers about receipts."""

    @call("get_payment_receipt", "GET", "/payments/{payment_id}/receipt")
    def get_payment(self, payment_id: UUID | str) -> Receipt:
        """Get the receipt of a payment that has ended.

        A signed document that `postdate receipt verify` checks without the server: what was
        requested and what was done, the position of both in the tenant's chain, and the proof
        that its seals contain them.
        `payment_id`: The payment's id.
        """

    @call("get_job_receipt", "GET", "/jobs/{job_id}/receipt")
    def get_job(self, job_id: UUID | str) -> Receipt:
        """Get the receipt of a job that has ended.

        Like the receipt of a payment. It carries the payload and the answer as they are stored.
        `job_id`: The job's id.
        """

    @call("list_receipt_keys", "GET", "/receipt-keys")
    def list_keys(self) -> ReceiptKeyList:
        """List the public keys of receipts.

        Needs no key: anyone who has a receipt can compare its `key_id`.
        """
