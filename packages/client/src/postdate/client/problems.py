"""Refusals, one class for each stable code. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.errors import ProblemError
from postdate.words.error import Code


class MalformedJsonError(ProblemError, code=Code.MALFORMED_JSON):
    """The body is not JSON."""


class InvalidFieldError(ProblemError, code=Code.INVALID_FIELD):
    """A field has a value that is not allowed."""


class UnknownFieldError(ProblemError, code=Code.UNKNOWN_FIELD):
    """A field is not known."""


class BodyIncompleteError(ProblemError, code=Code.BODY_INCOMPLETE):
    """The body is incomplete."""


class BodyTooLargeError(ProblemError, code=Code.BODY_TOO_LARGE):
    """The body is too large."""


class BodyTooDeepError(ProblemError, code=Code.BODY_TOO_DEEP):
    """The JSON is nested too deeply."""


class ReceiveTimeoutError(ProblemError, code=Code.RECEIVE_TIMEOUT):
    """The request did not arrive in time."""


class UnsupportedMediaTypeError(ProblemError, code=Code.UNSUPPORTED_MEDIA_TYPE):
    """The content type is not supported."""


class InvalidCursorError(ProblemError, code=Code.INVALID_CURSOR):
    """The cursor is not valid."""


class BatchTooLargeError(ProblemError, code=Code.BATCH_TOO_LARGE):
    """The batch has too many items."""


class TargetNotAllowedError(ProblemError, code=Code.TARGET_NOT_ALLOWED):
    """Calls to this address are not allowed."""


class HeadTooLargeError(ProblemError, code=Code.HEAD_TOO_LARGE):
    """The request head is too large."""


class TooCostlyError(ProblemError, code=Code.TOO_COSTLY):
    """The answer takes too much memory or CPU time to compute."""


class AmbiguousRequestError(ProblemError, code=Code.AMBIGUOUS_REQUEST):
    """The request is ambiguous."""


class UnauthenticatedError(ProblemError, code=Code.UNAUTHENTICATED):
    """No valid key was sent."""


class ForbiddenError(ProblemError, code=Code.FORBIDDEN):
    """The key is not allowed to do this."""


class NotFoundError(ProblemError, code=Code.NOT_FOUND):
    """Not found."""


class MethodNotAllowedError(ProblemError, code=Code.METHOD_NOT_ALLOWED):
    """The route does not support this method."""


class ConflictError(ProblemError, code=Code.CONFLICT):
    """The current status does not allow this."""


class UnknownSettingError(ProblemError, code=Code.UNKNOWN_SETTING):
    """There is no such setting."""


class UnknownTenantError(ProblemError, code=Code.UNKNOWN_TENANT):
    """There is no such tenant."""


class UnknownScopeError(ProblemError, code=Code.UNKNOWN_SCOPE):
    """There is no such scope."""


class TenantHaltedError(ProblemError, code=Code.TENANT_HALTED):
    """The tenant is halted."""


class NotInTestModeError(ProblemError, code=Code.NOT_IN_TEST_MODE):
    """The tenant is not in test mode."""


class ClockAdvancingError(ProblemError, code=Code.CLOCK_ADVANCING):
    """The test clock is being advanced."""


class AdvanceUnfinishedError(ProblemError, code=Code.ADVANCE_UNFINISHED):
    """An advance of the test clock is not finished."""


class QuotaExceededError(ProblemError, code=Code.QUOTA_EXCEEDED):
    """The tenant has reached a quota."""


class UnknownAccountError(ProblemError, code=Code.UNKNOWN_ACCOUNT):
    """There is no such account."""


class AccountExistsError(ProblemError, code=Code.ACCOUNT_EXISTS):
    """An account with this id exists."""


class AccountReservedError(ProblemError, code=Code.ACCOUNT_RESERVED):
    """This account is reserved for the ledger."""


class AccountFrozenError(ProblemError, code=Code.ACCOUNT_FROZEN):
    """The account is frozen."""


class AccountClosedError(ProblemError, code=Code.ACCOUNT_CLOSED):
    """The account is closed."""


class AccountNotEmptyError(ProblemError, code=Code.ACCOUNT_NOT_EMPTY):
    """The account has money or open holds."""


class SelfPaymentError(ProblemError, code=Code.SELF_PAYMENT):
    """Payer and payee are the same."""


class CurrencyMismatchError(ProblemError, code=Code.CURRENCY_MISMATCH):
    """Payer and payee have different currencies."""


class AmountAboveLimitError(ProblemError, code=Code.AMOUNT_ABOVE_LIMIT):
    """The amount is above the limit."""


class BalanceAboveLimitError(ProblemError, code=Code.BALANCE_ABOVE_LIMIT):
    """The balance would be out of range."""


class InsufficientFundsError(ProblemError, code=Code.INSUFFICIENT_FUNDS):
    """The payer does not have enough available."""


class TimeOutOfRangeError(ProblemError, code=Code.TIME_OUT_OF_RANGE):
    """The time is too early or too late."""


class PaymentNotPendingError(ProblemError, code=Code.PAYMENT_NOT_PENDING):
    """The payment has ended already."""


class PaymentNotRefundableError(ProblemError, code=Code.PAYMENT_NOT_REFUNDABLE):
    """The payment cannot be refunded."""


class RefundAbovePaidError(ProblemError, code=Code.REFUND_ABOVE_PAID):
    """The refunds would exceed what was paid."""


class NotDueError(ProblemError, code=Code.NOT_DUE):
    """The payment is not due yet."""


class ApprovalMissingError(ProblemError, code=Code.APPROVAL_MISSING):
    """The payment needs a second person's approval."""


class ApprovalByRequesterError(ProblemError, code=Code.APPROVAL_BY_REQUESTER):
    """You cannot approve a payment you requested."""


class DueInPastError(ProblemError, code=Code.DUE_IN_PAST):
    """The time is too far in the past."""


class BeyondHorizonError(ProblemError, code=Code.BEYOND_HORIZON):
    """The time is too far in the future."""


class PayloadTooLargeError(ProblemError, code=Code.PAYLOAD_TOO_LARGE):
    """The payload is too large."""


class UnknownDestinationError(ProblemError, code=Code.UNKNOWN_DESTINATION):
    """There is no destination with this name."""


class TooManyLanesError(ProblemError, code=Code.TOO_MANY_LANES):
    """The tenant has too many lanes."""


class LeaseLostError(ProblemError, code=Code.LEASE_LOST):
    """The lease is no longer yours."""


class DestinationUnreachableError(ProblemError, code=Code.DESTINATION_UNREACHABLE):
    """The broker is unreachable or refused the login."""


class IdempotencyKeyMissingError(ProblemError, code=Code.IDEMPOTENCY_KEY_MISSING):
    """The Idempotency-Key header is missing."""


class IdempotencyKeyInvalidError(ProblemError, code=Code.IDEMPOTENCY_KEY_INVALID):
    """The Idempotency-Key is not valid."""


class IdempotencyKeyReusedError(ProblemError, code=Code.IDEMPOTENCY_KEY_REUSED):
    """This key was used for a different request."""


class IdempotencyInFlightError(ProblemError, code=Code.IDEMPOTENCY_IN_FLIGHT):
    """A request with this key is still in progress."""


class RateLimitedError(ProblemError, code=Code.RATE_LIMITED):
    """Too many requests."""


class TooManyOpenError(ProblemError, code=Code.TOO_MANY_OPEN):
    """Too many requests are open."""


class OverloadedError(ProblemError, code=Code.OVERLOADED):
    """The server is overloaded."""


class UnavailableError(ProblemError, code=Code.UNAVAILABLE):
    """The database is unavailable."""


class SettlementStoppedError(ProblemError, code=Code.SETTLEMENT_STOPPED):
    """Settlement is stopped."""


class OutcomeUnknownError(ProblemError, code=Code.OUTCOME_UNKNOWN):
    """It is not known whether this was saved."""


class CommitsNotDurableError(ProblemError, code=Code.COMMITS_NOT_DURABLE):
    """The database may lose confirmed commits."""


class SecretKeyMissingError(ProblemError, code=Code.SECRET_KEY_MISSING):
    """This node cannot read or store secrets."""


class InternalError(ProblemError, code=Code.INTERNAL):
    """Internal server error."""


BY_CODE: Final = {each.own_code: each for each in ProblemError.__subclasses__()}
