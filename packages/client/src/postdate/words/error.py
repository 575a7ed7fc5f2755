"""Every way a request can be refused: stable codes, one table."""

from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

import msgspec

from postdate.words.open_enum import OpenEnum

T = TypeVar("T")


class Code(OpenEnum):
    """A stable name for a refusal. Codes never change; each has its section in the docs."""

    # The request itself
    MALFORMED_JSON = "malformed_json"
    INVALID_FIELD = "invalid_field"
    UNKNOWN_FIELD = "unknown_field"
    BODY_INCOMPLETE = "body_incomplete"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_DEEP = "body_too_deep"
    RECEIVE_TIMEOUT = "receive_timeout"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    INVALID_CURSOR = "invalid_cursor"
    BATCH_TOO_LARGE = "batch_too_large"
    TARGET_NOT_ALLOWED = "target_not_allowed"
    HEAD_TOO_LARGE = "head_too_large"
    TOO_COSTLY = "too_costly"
    AMBIGUOUS_REQUEST = "ambiguous_request"
    # The caller
    UNAUTHENTICATED = "unauthenticated"
    FORBIDDEN = "forbidden"
    # What is asked for
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    UNKNOWN_SETTING = "unknown_setting"
    UNKNOWN_TENANT = "unknown_tenant"
    UNKNOWN_SCOPE = "unknown_scope"
    TENANT_HALTED = "tenant_halted"
    NOT_IN_TEST_MODE = "not_in_test_mode"
    CLOCK_ADVANCING = "clock_advancing"
    ADVANCE_UNFINISHED = "advance_unfinished"
    QUOTA_EXCEEDED = "quota_exceeded"
    # Money
    UNKNOWN_ACCOUNT = "unknown_account"
    ACCOUNT_EXISTS = "account_exists"
    ACCOUNT_RESERVED = "account_reserved"
    ACCOUNT_FROZEN = "account_frozen"
    ACCOUNT_CLOSED = "account_closed"
    ACCOUNT_NOT_EMPTY = "account_not_empty"
    SELF_PAYMENT = "self_payment"
    CURRENCY_MISMATCH = "currency_mismatch"
    AMOUNT_ABOVE_LIMIT = "amount_above_limit"
    BALANCE_ABOVE_LIMIT = "balance_above_limit"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    TIME_OUT_OF_RANGE = "time_out_of_range"
    PAYMENT_NOT_PENDING = "payment_not_pending"
    PAYMENT_NOT_REFUNDABLE = "payment_not_refundable"
    REFUND_ABOVE_PAID = "refund_above_paid"
    NOT_DUE = "not_due"
    APPROVAL_MISSING = "approval_missing"
    APPROVAL_BY_REQUESTER = "approval_by_requester"
    # Jobs
    DUE_IN_PAST = "due_in_past"
    BEYOND_HORIZON = "beyond_horizon"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    UNKNOWN_DESTINATION = "unknown_destination"
    TOO_MANY_LANES = "too_many_lanes"
    LEASE_LOST = "lease_lost"
    DESTINATION_UNREACHABLE = "destination_unreachable"
    # Idempotency
    IDEMPOTENCY_KEY_MISSING = "idempotency_key_missing"
    IDEMPOTENCY_KEY_INVALID = "idempotency_key_invalid"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    IDEMPOTENCY_IN_FLIGHT = "idempotency_in_flight"
    # The server
    RATE_LIMITED = "rate_limited"
    TOO_MANY_OPEN = "too_many_open"
    OVERLOADED = "overloaded"
    UNAVAILABLE = "unavailable"
    SETTLEMENT_STOPPED = "settlement_stopped"
    OUTCOME_UNKNOWN = "outcome_unknown"
    COMMITS_NOT_DURABLE = "commits_not_durable"
    SECRET_KEY_MISSING = "secret_key_missing"  # noqa: S105 - a code, no password
    INTERNAL = "internal"


class Explanation(NamedTuple):
    """What a code means: the HTTP status, a title, and what to do about it."""

    status: int
    title: str
    advice: str


EXPLANATIONS: Final[dict[Code, Explanation]] = {
    Code.MALFORMED_JSON: Explanation(
        400, "The body is not JSON", "Send one JSON object, encoded as UTF-8."
    ),
    Code.INVALID_FIELD: Explanation(
        422,
        "A field has a value that is not allowed",
        "`field` names it, `detail` says why; `problems` lists every error in the body.",
    ),
    Code.UNKNOWN_FIELD: Explanation(
        422, "A field is not known", "Remove it, or check its spelling against `/schema`."
    ),
    Code.BODY_INCOMPLETE: Explanation(
        400,
        "The body is incomplete",
        "Send as many bytes as the headers announce, in valid chunks.",
    ),
    Code.BODY_TOO_LARGE: Explanation(
        413,
        "The body is too large",
        "Send less, or store the data elsewhere and send a `payload_ref`.",
    ),
    Code.BODY_TOO_DEEP: Explanation(
        422, "The JSON is nested too deeply", "Flatten it to at most 32 levels."
    ),
    Code.RECEIVE_TIMEOUT: Explanation(
        408, "The request did not arrive in time", "Send the whole request without pauses."
    ),
    Code.UNSUPPORTED_MEDIA_TYPE: Explanation(
        415, "The content type is not supported", "Send `Content-Type: application/json`."
    ),
    Code.INVALID_CURSOR: Explanation(
        422, "The cursor is not valid", "Pass `next_cursor` back unchanged."
    ),
    Code.BATCH_TOO_LARGE: Explanation(
        422, "The batch has too many items", "Split it; the limit is in `detail`."
    ),
    Code.TARGET_NOT_ALLOWED: Explanation(
        422,
        "Calls to this address are not allowed",
        "Use a public address, or have the operator list the network in "
        "POSTDATE_ALLOW_PRIVATE_TARGETS, or the broker in POSTDATE_KAFKA_BROKERS.",
    ),
    Code.HEAD_TOO_LARGE: Explanation(
        431, "The request head is too large", "Send fewer or shorter headers."
    ),
    Code.TOO_COSTLY: Explanation(
        422,
        "The answer takes too much memory or CPU time to compute",
        "Ask for less: a shorter window, a simpler rule, fewer changes; `detail` names the limit.",
    ),
    Code.AMBIGUOUS_REQUEST: Explanation(
        400,
        "The request is ambiguous",
        "Send the header that `detail` names only once; `Transfer-Encoding` may only be `chunked`.",
    ),
    Code.UNAUTHENTICATED: Explanation(
        401, "No valid key was sent", "Send `Authorization: Bearer <key>`."
    ),
    Code.FORBIDDEN: Explanation(
        403,
        "The key is not allowed to do this",
        "Use a key whose scopes include the one in `detail`.",
    ),
    Code.NOT_FOUND: Explanation(
        404, "Not found", "Check the id; another tenant's objects look missing too."
    ),
    Code.METHOD_NOT_ALLOWED: Explanation(
        405, "The route does not support this method", "The `Allow` header lists the methods."
    ),
    Code.CONFLICT: Explanation(
        409, "The current status does not allow this", "`current_status` is the status now."
    ),
    Code.UNKNOWN_SETTING: Explanation(
        422, "There is no such setting", "`postdate setting list` lists all settings."
    ),
    Code.UNKNOWN_TENANT: Explanation(
        404, "There is no such tenant", "`postdate tenant list` lists all tenants."
    ),
    Code.UNKNOWN_SCOPE: Explanation(
        422, "There is no such scope", "Use one of the scopes in `detail`."
    ),
    Code.TENANT_HALTED: Explanation(
        409,
        "The tenant is halted",
        "Its kill switch is on, or a freeze window refuses new work. `GET /halts` says why, who "
        "set it, and until when.",
    ),
    Code.NOT_IN_TEST_MODE: Explanation(
        409,
        "The tenant is not in test mode",
        "Only a tenant that was created with `test` has a clock that can be advanced. The mode of "
        "a tenant cannot be changed.",
    ),
    Code.CLOCK_ADVANCING: Explanation(
        409,
        "The test clock is being advanced",
        "One advance runs at a time. `retry_after_seconds` says when to try again.",
    ),
    Code.ADVANCE_UNFINISHED: Explanation(
        409,
        "An advance of the test clock is not finished",
        "It was interrupted, or took longer than one request may. Send an empty body to continue "
        "to its `target`.",
    ),
    Code.QUOTA_EXCEEDED: Explanation(
        409, "The tenant has reached a quota", "Wait, remove some, or ask the operator to raise it."
    ),
    Code.UNKNOWN_ACCOUNT: Explanation(
        422,
        "There is no such account",
        "Create it first; other tenants' accounts look missing too.",
    ),
    Code.ACCOUNT_EXISTS: Explanation(
        409, "An account with this id exists", "Use it, or choose another id."
    ),
    Code.ACCOUNT_RESERVED: Explanation(
        422, "This account is reserved for the ledger", "Use adjustments to move its money."
    ),
    Code.ACCOUNT_FROZEN: Explanation(
        409,
        "The account is frozen",
        "Unfreeze it first; `field` says whether it is payer or payee.",
    ),
    Code.ACCOUNT_CLOSED: Explanation(
        409, "The account is closed", "Use another account; a closed account cannot be reopened."
    ),
    Code.ACCOUNT_NOT_EMPTY: Explanation(
        409, "The account has money or open holds", "Bring balance and held to 0 first."
    ),
    Code.SELF_PAYMENT: Explanation(
        422, "Payer and payee are the same", "Name two different accounts."
    ),
    Code.CURRENCY_MISMATCH: Explanation(
        422,
        "Payer and payee have different currencies",
        "Pay between accounts of one currency; `currencies` names both. Nothing is converted.",
    ),
    Code.AMOUNT_ABOVE_LIMIT: Explanation(
        422, "The amount is above the limit", "`limit` is the largest amount allowed now."
    ),
    Code.BALANCE_ABOVE_LIMIT: Explanation(
        422, "The balance would be out of range", "Spread the money over several accounts."
    ),
    Code.INSUFFICIENT_FUNDS: Explanation(
        422,
        "The payer does not have enough available",
        "Credit the account and send the payment under a new key, or use `at_execution`.",
    ),
    Code.TIME_OUT_OF_RANGE: Explanation(
        422, "The time is too early or too late", "`earliest` and `latest` are the allowed range."
    ),
    Code.PAYMENT_NOT_PENDING: Explanation(
        409,
        "The payment has ended already",
        "`payment_status` says how. Money that was paid is returned by a refund.",
    ),
    Code.PAYMENT_NOT_REFUNDABLE: Explanation(
        409,
        "The payment cannot be refunded",
        "Only a COMPLETED payment that is no refund itself can be; `payment_status` is its status.",
    ),
    Code.REFUND_ABOVE_PAID: Explanation(
        422,
        "The refunds would exceed what was paid",
        "`refundable` is what is left; refunds that failed or were cancelled do not count.",
    ),
    Code.NOT_DUE: Explanation(
        409, "The payment is not due yet", "`scheduled_time` says when it is due."
    ),
    Code.APPROVAL_MISSING: Explanation(
        409,
        "The payment needs a second person's approval",
        "Approve it with another person's key that has the scope `payments:approve`.",
    ),
    Code.APPROVAL_BY_REQUESTER: Explanation(
        403,
        "You cannot approve a payment you requested",
        "Use a second person's key, issued by the operator, or a token. Keys that one key has "
        "created or rotated count as one person, and so do the authors and runners of a schedule.",
    ),
    Code.DUE_IN_PAST: Explanation(
        422,
        "The time is too far in the past",
        "Omit `run_at` to run now; `job.past_tolerance_seconds` is the limit.",
    ),
    Code.BEYOND_HORIZON: Explanation(
        422, "The time is too far in the future", "The setting `job.horizon_seconds` is the limit."
    ),
    Code.PAYLOAD_TOO_LARGE: Explanation(
        413, "The payload is too large", "Store it elsewhere and send a `payload_ref`."
    ),
    Code.UNKNOWN_DESTINATION: Explanation(
        422, "There is no destination with this name", "Create it with `POST /destinations` first."
    ),
    Code.TOO_MANY_LANES: Explanation(
        422, "The tenant has too many lanes", "Use fewer names, or raise `job.max_lanes`."
    ),
    Code.LEASE_LOST: Explanation(
        409,
        "The lease is no longer yours",
        "Nothing was changed. Drop this job: it runs elsewhere, was cancelled, or has ended.",
    ),
    Code.DESTINATION_UNREACHABLE: Explanation(
        422, "The broker is unreachable or refused the login", "Correct `config`, or send `force`."
    ),
    Code.IDEMPOTENCY_KEY_MISSING: Explanation(
        400, "The Idempotency-Key header is missing", "Send a new key for each new request."
    ),
    Code.IDEMPOTENCY_KEY_INVALID: Explanation(
        422, "The Idempotency-Key is not valid", "Use 1 to 255 printable ASCII characters."
    ),
    Code.IDEMPOTENCY_KEY_REUSED: Explanation(
        422, "This key was used for a different request", "`differs` names the fields that differ."
    ),
    Code.IDEMPOTENCY_IN_FLIGHT: Explanation(
        409, "A request with this key is still in progress", "Repeat it after `Retry-After`."
    ),
    Code.RATE_LIMITED: Explanation(429, "Too many requests", "Wait for `Retry-After` seconds."),
    Code.TOO_MANY_OPEN: Explanation(
        429,
        "Too many requests are open",
        "Share one stream or long poll between readers, or close some; `limited_by` says which "
        "limit is reached.",
    ),
    Code.OVERLOADED: Explanation(
        503, "The server is overloaded", "Wait for `Retry-After` seconds."
    ),
    Code.UNAVAILABLE: Explanation(
        503, "The database is unavailable", "Nothing was saved; repeat after `Retry-After`."
    ),
    Code.SETTLEMENT_STOPPED: Explanation(
        503,
        "Settlement is stopped",
        "An operator has stopped settlement: `postdate settlement status` "
        "says why. Nothing was changed; repeat after `Retry-After`.",
    ),
    Code.OUTCOME_UNKNOWN: Explanation(
        503,
        "It is not known whether this was saved",
        "Repeat the request with the same Idempotency-Key to get the real answer.",
    ),
    Code.COMMITS_NOT_DURABLE: Explanation(
        503,
        "The database may lose confirmed commits",
        "The operator must correct its settings, or accept the risk with `payment.unsafe_commits`.",
    ),
    Code.SECRET_KEY_MISSING: Explanation(
        503,
        "This node cannot read or store secrets",
        "The operator must give every node the same POSTDATE_SECRET_KEY.",
    ),
    Code.INTERNAL: Explanation(
        500, "Internal server error", "Report the request id; the server's log has the details."
    ),
}


class Refusal(msgspec.Struct, frozen=True):
    """Why one item was refused. A value: batches return it, single requests answer with it."""

    code: Code
    detail: str
    field: str | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def status(self) -> int:
        """Return the HTTP status of the code."""
        return EXPLANATIONS[self.code].status


class RefusedError(Exception):
    """Carries a refusal up to the code that answers the request."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.code}: {refusal.detail}")
        self.refusal = refusal


class StartError(Exception):
    """The server cannot start or continue; the message is one sentence that says what to do."""


class NotYetError(StartError):
    """The server cannot start yet: the same start may succeed later."""


def refuse(code: Code, detail: str, field: str | None = None, **extra: Any) -> RefusedError:
    """Make the exception for a refusal; the caller raises it."""
    return RefusedError(Refusal(code=code, detail=detail, field=field, extra=extra))


def not_found(noun: str, identifier: UUID | str) -> RefusedError:
    """Return the refusal of an id; malformed, absent and foreign ids get the same sentence."""
    return refuse(Code.NOT_FOUND, f"There is no {noun} {identifier}.")


def accepted(value: T | Refusal) -> T:
    """Return a value that was not refused; raise a refusal."""
    if isinstance(value, Refusal):
        raise RefusedError(value)
    return value
