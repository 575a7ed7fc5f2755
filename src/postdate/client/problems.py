"""Refusals, one class for each stable code. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.errors import ProblemError


class MalformedJsonError(ProblemError):
    """The body is not JSON.

    `malformed_json`, HTTP 400. Send one JSON object, encoded as UTF-8.
    """


class InvalidFieldError(ProblemError):
    """A field has a value that is not allowed.

    `invalid_field`, HTTP 422. `field` names it, `detail` says why; `problems` lists all that is
    wrong with the body.
    """


class UnknownFieldError(ProblemError):
    """A field is not known here.

    `unknown_field`, HTTP 422. Remove it, or check its spelling against `/schema`.
    """


class BodyIncompleteError(ProblemError):
    """The body broke off.

    `body_incomplete`, HTTP 400. Send as many bytes as the headers announce, chunks well formed.
    """


class BodyTooLargeError(ProblemError):
    """The body is too large.

    `body_too_large`, HTTP 413. Send less, or store it elsewhere and send a `payload_ref`.
    """


class BodyTooDeepError(ProblemError):
    """The JSON is nested too deeply.

    `body_too_deep`, HTTP 422. Flatten it to at most 32 levels.
    """


class ReceiveTimeoutError(ProblemError):
    """The request did not arrive in time.

    `receive_timeout`, HTTP 408. Send the whole request without pauses.
    """


class UnsupportedMediaTypeError(ProblemError):
    """The content type is not understood.

    `unsupported_media_type`, HTTP 415. Send `Content-Type: application/json`.
    """


class InvalidCursorError(ProblemError):
    """The cursor is not one of ours.

    `invalid_cursor`, HTTP 422. Pass `next_cursor` back exactly as it came.
    """


class BatchTooLargeError(ProblemError):
    """The batch has too many items.

    `batch_too_large`, HTTP 422. Split it; the limit is in `detail`.
    """


class TargetNotAllowedError(ProblemError):
    """Calls to this address are not allowed.

    `target_not_allowed`, HTTP 422. Use a public address, or have the operator list the network in
    POSTDATE_ALLOW_PRIVATE_TARGETS, or the broker in POSTDATE_KAFKA_BROKERS.
    """


class HeadTooLargeError(ProblemError):
    """The head of the request is too large.

    `head_too_large`, HTTP 431. Send fewer or shorter headers.
    """


class AmbiguousRequestError(ProblemError):
    """The request can be read in two ways.

    `ambiguous_request`, HTTP 400. Send the header that `detail` names once; a `Transfer-Encoding`
    is `chunked` alone.
    """


class UnauthenticatedError(ProblemError):
    """No valid key was given.

    `unauthenticated`, HTTP 401. Send `Authorization: Bearer <key>`.
    """


class ForbiddenError(ProblemError):
    """The key may not do this.

    `forbidden`, HTTP 403. Use a key whose scopes include the one in `detail`.
    """


class NotFoundError(ProblemError):
    """There is no such thing.

    `not_found`, HTTP 404. Check the id; things of other tenants look missing too.
    """


class MethodNotAllowedError(ProblemError):
    """The route does not know this method.

    `method_not_allowed`, HTTP 405. The `Allow` header lists those it knows.
    """


class ConflictError(ProblemError):
    """It is not in a state that allows this.

    `conflict`, HTTP 409. `current_status` says where it stands now.
    """


class UnknownSettingError(ProblemError):
    """There is no such setting.

    `unknown_setting`, HTTP 422. `postdate setting list` names them all.
    """


class UnknownTenantError(ProblemError):
    """There is no such tenant.

    `unknown_tenant`, HTTP 404. `postdate tenant list` names them all.
    """


class UnknownScopeError(ProblemError):
    """There is no such scope.

    `unknown_scope`, HTTP 422. Use one of the scopes in `detail`.
    """


class TenantHaltedError(ProblemError):
    """The tenant stands still.

    `tenant_halted`, HTTP 409. Its kill switch is on, or a freeze window accepts nothing new: `GET
    /halts` says why, by whom and until when.
    """


class QuotaExceededError(ProblemError):
    """The tenant has as much as it may.

    `quota_exceeded`, HTTP 409. Wait, remove some, or have the quota raised.
    """


class UnknownAccountError(ProblemError):
    """There is no such account.

    `unknown_account`, HTTP 422. Create it first; accounts of other tenants look missing.
    """


class AccountExistsError(ProblemError):
    """There is an account with this id.

    `account_exists`, HTTP 409. Use it, or choose another id.
    """


class AccountReservedError(ProblemError):
    """This account is the ledger's own.

    `account_reserved`, HTTP 422. Use adjustments; they are its only movements.
    """


class AccountFrozenError(ProblemError):
    """The account is frozen.

    `account_frozen`, HTTP 409. Unfreeze it first; `field` says which of the two it is.
    """


class AccountClosedError(ProblemError):
    """The account is closed.

    `account_closed`, HTTP 409. Use another account; a closed one stays closed.
    """


class AccountNotEmptyError(ProblemError):
    """The account has money or open holds.

    `account_not_empty`, HTTP 409. Bring balance and held to 0 first.
    """


class SelfPaymentError(ProblemError):
    """Payer and payee are the same.

    `self_payment`, HTTP 422. Name two different accounts.
    """


class CurrencyMismatchError(ProblemError):
    """Payer and payee have different currencies.

    `currency_mismatch`, HTTP 422. Pay between accounts of one currency; `currencies` names both.
    Nothing is converted.
    """


class AmountAboveLimitError(ProblemError):
    """The amount is above the limit.

    `amount_above_limit`, HTTP 422. `limit` says the most that is allowed now.
    """


class BalanceAboveLimitError(ProblemError):
    """The balance would leave its range.

    `balance_above_limit`, HTTP 422. Spread the money over several accounts.
    """


class InsufficientFundsError(ProblemError):
    """The payer has too little available.

    `insufficient_funds`, HTTP 422. Credit the account and send the payment under a new key, or
    use `at_execution`.
    """


class TimeOutOfRangeError(ProblemError):
    """The time is too early or too late.

    `time_out_of_range`, HTTP 422. `earliest` and `latest` give the range.
    """


class PaymentNotPendingError(ProblemError):
    """The payment has ended already.

    `payment_not_pending`, HTTP 409. `payment_status` says how. What has been paid is paid back by
    another payment.
    """


class NotDueError(ProblemError):
    """The payment is not due yet.

    `not_due`, HTTP 409. `scheduled_time` says when it will be.
    """


class ApprovalMissingError(ProblemError):
    """The payment waits for a second person.

    `approval_missing`, HTTP 409. Have another key with the scope `payments:approve` approve it.
    """


class ApprovalByRequesterError(ProblemError):
    """You cannot approve a payment you requested.

    `approval_by_requester`, HTTP 403. Use a second person's key, issued by the operator, or a
    token: keys that one key has made or rotated count as one person, and so does whoever wrote or
    ran the schedule.
    """


class DueInPastError(ProblemError):
    """The time lies too far in the past.

    `due_in_past`, HTTP 422. Leave `run_at` out to run now; `job.past_tolerance_seconds` says what
    is still accepted.
    """


class BeyondHorizonError(ProblemError):
    """The time lies too far ahead.

    `beyond_horizon`, HTTP 422. The setting `job.horizon_seconds` is the limit.
    """


class PayloadTooLargeError(ProblemError):
    """The payload is too large.

    `payload_too_large`, HTTP 413. Store it elsewhere and send a `payload_ref`.
    """


class UnknownDestinationError(ProblemError):
    """There is no destination of this name.

    `unknown_destination`, HTTP 422. Create it with `POST /destinations` first.
    """


class TooManyLanesError(ProblemError):
    """The tenant has too many lanes.

    `too_many_lanes`, HTTP 422. Use fewer names, or raise `job.max_lanes`.
    """


class LeaseLostError(ProblemError):
    """The lease is no longer yours.

    `lease_lost`, HTTP 409. Nothing was changed. Drop this job: it runs elsewhere, was cancelled,
    or has ended.
    """


class DestinationUnreachableError(ProblemError):
    """The broker cannot be reached or refuses us.

    `destination_unreachable`, HTTP 422. Correct `config`, or send `force`.
    """


class IdempotencyKeyMissingError(ProblemError):
    """The Idempotency-Key header is missing.

    `idempotency_key_missing`, HTTP 400. Send one of your own for each new thing.
    """


class IdempotencyKeyInvalidError(ProblemError):
    """The Idempotency-Key is not usable.

    `idempotency_key_invalid`, HTTP 422. Use 1 to 255 printable ASCII characters.
    """


class IdempotencyKeyReusedError(ProblemError):
    """This key was used for another request.

    `idempotency_key_reused`, HTTP 422. `differs` names the fields that changed.
    """


class IdempotencyInFlightError(ProblemError):
    """A request with this key is still being answered.

    `idempotency_in_flight`, HTTP 409. Repeat it after `Retry-After`.
    """


class RateLimitedError(ProblemError):
    """Too many requests.

    `rate_limited`, HTTP 429. Wait for `Retry-After` seconds.
    """


class TooManyOpenError(ProblemError):
    """Too many requests are open at once.

    `too_many_open`, HTTP 429. Share one stream or long poll between readers, or close some;
    `limited_by` says whose number is reached.
    """


class OverloadedError(ProblemError):
    """The server has more than it can take.

    `overloaded`, HTTP 503. Wait for `Retry-After` seconds.
    """


class UnavailableError(ProblemError):
    """The database cannot be written now.

    `unavailable`, HTTP 503. Nothing was saved; repeat after `Retry-After`.
    """


class SettlementStoppedError(ProblemError):
    """No payment is settled at present.

    `settlement_stopped`, HTTP 503. An operator or the clock guard has stopped settlement:
    `postdate settlement status` says why. Nothing was changed; repeat after `Retry-After`.
    """


class OutcomeUnknownError(ProblemError):
    """It is not known whether this was saved.

    `outcome_unknown`, HTTP 503. Repeat the request with the same Idempotency-Key: the answer will
    be the true one.
    """


class CommitsNotDurableError(ProblemError):
    """The database may lose what it confirms.

    `commits_not_durable`, HTTP 503. The operator mends its settings, or accepts the risk:
    `payment.unsafe_commits`.
    """


class SecretKeyMissingError(ProblemError):
    """This node cannot read or keep secrets.

    `secret_key_missing`, HTTP 503. The operator gives every node the same POSTDATE_SECRET_KEY.
    """


class InternalError(ProblemError):
    """Something went wrong on our side.

    `internal`, HTTP 500. Report the request id; the log has the rest.
    """


BY_CODE: Final[dict[str, type[ProblemError]]] = {
    "malformed_json": MalformedJsonError,
    "invalid_field": InvalidFieldError,
    "unknown_field": UnknownFieldError,
    "body_incomplete": BodyIncompleteError,
    "body_too_large": BodyTooLargeError,
    "body_too_deep": BodyTooDeepError,
    "receive_timeout": ReceiveTimeoutError,
    "unsupported_media_type": UnsupportedMediaTypeError,
    "invalid_cursor": InvalidCursorError,
    "batch_too_large": BatchTooLargeError,
    "target_not_allowed": TargetNotAllowedError,
    "head_too_large": HeadTooLargeError,
    "ambiguous_request": AmbiguousRequestError,
    "unauthenticated": UnauthenticatedError,
    "forbidden": ForbiddenError,
    "not_found": NotFoundError,
    "method_not_allowed": MethodNotAllowedError,
    "conflict": ConflictError,
    "unknown_setting": UnknownSettingError,
    "unknown_tenant": UnknownTenantError,
    "unknown_scope": UnknownScopeError,
    "tenant_halted": TenantHaltedError,
    "quota_exceeded": QuotaExceededError,
    "unknown_account": UnknownAccountError,
    "account_exists": AccountExistsError,
    "account_reserved": AccountReservedError,
    "account_frozen": AccountFrozenError,
    "account_closed": AccountClosedError,
    "account_not_empty": AccountNotEmptyError,
    "self_payment": SelfPaymentError,
    "currency_mismatch": CurrencyMismatchError,
    "amount_above_limit": AmountAboveLimitError,
    "balance_above_limit": BalanceAboveLimitError,
    "insufficient_funds": InsufficientFundsError,
    "time_out_of_range": TimeOutOfRangeError,
    "payment_not_pending": PaymentNotPendingError,
    "not_due": NotDueError,
    "approval_missing": ApprovalMissingError,
    "approval_by_requester": ApprovalByRequesterError,
    "due_in_past": DueInPastError,
    "beyond_horizon": BeyondHorizonError,
    "payload_too_large": PayloadTooLargeError,
    "unknown_destination": UnknownDestinationError,
    "too_many_lanes": TooManyLanesError,
    "lease_lost": LeaseLostError,
    "destination_unreachable": DestinationUnreachableError,
    "idempotency_key_missing": IdempotencyKeyMissingError,
    "idempotency_key_invalid": IdempotencyKeyInvalidError,
    "idempotency_key_reused": IdempotencyKeyReusedError,
    "idempotency_in_flight": IdempotencyInFlightError,
    "rate_limited": RateLimitedError,
    "too_many_open": TooManyOpenError,
    "overloaded": OverloadedError,
    "unavailable": UnavailableError,
    "settlement_stopped": SettlementStoppedError,
    "outcome_unknown": OutcomeUnknownError,
    "commits_not_durable": CommitsNotDurableError,
    "secret_key_missing": SecretKeyMissingError,
    "internal": InternalError,
}
