"""Refusals, one class for each stable code. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.errors import ProblemError


class MalformedJsonError(ProblemError, code="malformed_json"):
    """The body is not JSON.

    HTTP 400. Send one JSON object, encoded as UTF-8.
    """


class InvalidFieldError(ProblemError, code="invalid_field"):
    """A field has a value that is not allowed.

    HTTP 422. `field` names it, `detail` says why; `problems` lists all that is wrong with the
    body.
    """


class UnknownFieldError(ProblemError, code="unknown_field"):
    """A field is not known here.

    HTTP 422. Remove it, or check its spelling against `/schema`.
    """


class BodyIncompleteError(ProblemError, code="body_incomplete"):
    """The body broke off.

    HTTP 400. Send as many bytes as the headers announce, chunks well formed.
    """


class BodyTooLargeError(ProblemError, code="body_too_large"):
    """The body is too large.

    HTTP 413. Send less, or store it elsewhere and send a `payload_ref`.
    """


class BodyTooDeepError(ProblemError, code="body_too_deep"):
    """The JSON is nested too deeply.

    HTTP 422. Flatten it to at most 32 levels.
    """


class ReceiveTimeoutError(ProblemError, code="receive_timeout"):
    """The request did not arrive in time.

    HTTP 408. Send the whole request without pauses.
    """


class UnsupportedMediaTypeError(ProblemError, code="unsupported_media_type"):
    """The content type is not understood.

    HTTP 415. Send `Content-Type: application/json`.
    """


class InvalidCursorError(ProblemError, code="invalid_cursor"):
    """The cursor is not one of ours.

    HTTP 422. Pass `next_cursor` back exactly as it came.
    """


class BatchTooLargeError(ProblemError, code="batch_too_large"):
    """The batch has too many items.

    HTTP 422. Split it; the limit is in `detail`.
    """


class TargetNotAllowedError(ProblemError, code="target_not_allowed"):
    """Calls to this address are not allowed.

    HTTP 422. Use a public address, or have the operator list the network in
    POSTDATE_ALLOW_PRIVATE_TARGETS, or the broker in POSTDATE_KAFKA_BROKERS.
    """


class HeadTooLargeError(ProblemError, code="head_too_large"):
    """The head of the request is too large.

    HTTP 431. Send fewer or shorter headers.
    """


class AmbiguousRequestError(ProblemError, code="ambiguous_request"):
    """The request can be read in two ways.

    HTTP 400. Send the header that `detail` names once; a `Transfer-Encoding` is `chunked` alone.
    """


class UnauthenticatedError(ProblemError, code="unauthenticated"):
    """No valid key was given.

    HTTP 401. Send `Authorization: Bearer <key>`.
    """


class ForbiddenError(ProblemError, code="forbidden"):
    """The key may not do this.

    HTTP 403. Use a key whose scopes include the one in `detail`.
    """


class NotFoundError(ProblemError, code="not_found"):
    """There is no such thing.

    HTTP 404. Check the id; things of other tenants look missing too.
    """


class MethodNotAllowedError(ProblemError, code="method_not_allowed"):
    """The route does not know this method.

    HTTP 405. The `Allow` header lists those it knows.
    """


class ConflictError(ProblemError, code="conflict"):
    """It is not in a state that allows this.

    HTTP 409. `current_status` says where it stands now.
    """


class UnknownSettingError(ProblemError, code="unknown_setting"):
    """There is no such setting.

    HTTP 422. `postdate setting list` names them all.
    """


class UnknownTenantError(ProblemError, code="unknown_tenant"):
    """There is no such tenant.

    HTTP 404. `postdate tenant list` names them all.
    """


class UnknownScopeError(ProblemError, code="unknown_scope"):
    """There is no such scope.

    HTTP 422. Use one of the scopes in `detail`.
    """


class TenantHaltedError(ProblemError, code="tenant_halted"):
    """The tenant stands still.

    HTTP 409. Its kill switch is on, or a freeze window accepts nothing new: `GET /halts` says
    why, by whom and until when.
    """


class NotInTestModeError(ProblemError, code="not_in_test_mode"):
    """The tenant is not in test mode.

    HTTP 409. Only a tenant that was created with `test` has a clock that can be advanced; nothing
    switches a tenant between the two.
    """


class ClockAdvancingError(ProblemError, code="clock_advancing"):
    """The test clock is being advanced.

    HTTP 409. One advance runs at a time. `retry_after_seconds` says when to ask again.
    """


class AdvanceUnfinishedError(ProblemError, code="advance_unfinished"):
    """An advance of the test clock is not finished.

    HTTP 409. It was broken off, or took longer than one request may: send an empty body to
    continue it to its `target`.
    """


class QuotaExceededError(ProblemError, code="quota_exceeded"):
    """The tenant has as much as it may.

    HTTP 409. Wait, remove some, or have the quota raised.
    """


class UnknownAccountError(ProblemError, code="unknown_account"):
    """There is no such account.

    HTTP 422. Create it first; accounts of other tenants look missing.
    """


class AccountExistsError(ProblemError, code="account_exists"):
    """There is an account with this id.

    HTTP 409. Use it, or choose another id.
    """


class AccountReservedError(ProblemError, code="account_reserved"):
    """This account is the ledger's own.

    HTTP 422. Use adjustments; they are its only movements.
    """


class AccountFrozenError(ProblemError, code="account_frozen"):
    """The account is frozen.

    HTTP 409. Unfreeze it first; `field` says which of the two it is.
    """


class AccountClosedError(ProblemError, code="account_closed"):
    """The account is closed.

    HTTP 409. Use another account; a closed one stays closed.
    """


class AccountNotEmptyError(ProblemError, code="account_not_empty"):
    """The account has money or open holds.

    HTTP 409. Bring balance and held to 0 first.
    """


class SelfPaymentError(ProblemError, code="self_payment"):
    """Payer and payee are the same.

    HTTP 422. Name two different accounts.
    """


class CurrencyMismatchError(ProblemError, code="currency_mismatch"):
    """Payer and payee have different currencies.

    HTTP 422. Pay between accounts of one currency; `currencies` names both. Nothing is converted.
    """


class AmountAboveLimitError(ProblemError, code="amount_above_limit"):
    """The amount is above the limit.

    HTTP 422. `limit` says the most that is allowed now.
    """


class BalanceAboveLimitError(ProblemError, code="balance_above_limit"):
    """The balance would leave its range.

    HTTP 422. Spread the money over several accounts.
    """


class InsufficientFundsError(ProblemError, code="insufficient_funds"):
    """The payer has too little available.

    HTTP 422. Credit the account and send the payment under a new key, or use `at_execution`.
    """


class TimeOutOfRangeError(ProblemError, code="time_out_of_range"):
    """The time is too early or too late.

    HTTP 422. `earliest` and `latest` give the range.
    """


class PaymentNotPendingError(ProblemError, code="payment_not_pending"):
    """The payment has ended already.

    HTTP 409. `payment_status` says how. What has been paid is paid back by another payment.
    """


class NotDueError(ProblemError, code="not_due"):
    """The payment is not due yet.

    HTTP 409. `scheduled_time` says when it will be.
    """


class ApprovalMissingError(ProblemError, code="approval_missing"):
    """The payment waits for a second person.

    HTTP 409. Have another key with the scope `payments:approve` approve it.
    """


class ApprovalByRequesterError(ProblemError, code="approval_by_requester"):
    """You cannot approve a payment you requested.

    HTTP 403. Use a second person's key, issued by the operator, or a token: keys that one key has
    made or rotated count as one person, and so does whoever wrote or ran the schedule.
    """


class DueInPastError(ProblemError, code="due_in_past"):
    """The time lies too far in the past.

    HTTP 422. Leave `run_at` out to run now; `job.past_tolerance_seconds` says what is still
    accepted.
    """


class BeyondHorizonError(ProblemError, code="beyond_horizon"):
    """The time lies too far ahead.

    HTTP 422. The setting `job.horizon_seconds` is the limit.
    """


class PayloadTooLargeError(ProblemError, code="payload_too_large"):
    """The payload is too large.

    HTTP 413. Store it elsewhere and send a `payload_ref`.
    """


class UnknownDestinationError(ProblemError, code="unknown_destination"):
    """There is no destination of this name.

    HTTP 422. Create it with `POST /destinations` first.
    """


class TooManyLanesError(ProblemError, code="too_many_lanes"):
    """The tenant has too many lanes.

    HTTP 422. Use fewer names, or raise `job.max_lanes`.
    """


class LeaseLostError(ProblemError, code="lease_lost"):
    """The lease is no longer yours.

    HTTP 409. Nothing was changed. Drop this job: it runs elsewhere, was cancelled, or has ended.
    """


class DestinationUnreachableError(ProblemError, code="destination_unreachable"):
    """The broker cannot be reached or refuses us.

    HTTP 422. Correct `config`, or send `force`.
    """


class IdempotencyKeyMissingError(ProblemError, code="idempotency_key_missing"):
    """The Idempotency-Key header is missing.

    HTTP 400. Send one of your own for each new thing.
    """


class IdempotencyKeyInvalidError(ProblemError, code="idempotency_key_invalid"):
    """The Idempotency-Key is not usable.

    HTTP 422. Use 1 to 255 printable ASCII characters.
    """


class IdempotencyKeyReusedError(ProblemError, code="idempotency_key_reused"):
    """This key was used for another request.

    HTTP 422. `differs` names the fields that changed.
    """


class IdempotencyInFlightError(ProblemError, code="idempotency_in_flight"):
    """A request with this key is still being answered.

    HTTP 409. Repeat it after `Retry-After`.
    """


class RateLimitedError(ProblemError, code="rate_limited"):
    """Too many requests.

    HTTP 429. Wait for `Retry-After` seconds.
    """


class TooManyOpenError(ProblemError, code="too_many_open"):
    """Too many requests are open at once.

    HTTP 429. Share one stream or long poll between readers, or close some; `limited_by` says
    whose number is reached.
    """


class OverloadedError(ProblemError, code="overloaded"):
    """The server has more than it can take.

    HTTP 503. Wait for `Retry-After` seconds.
    """


class UnavailableError(ProblemError, code="unavailable"):
    """The database cannot be written now.

    HTTP 503. Nothing was saved; repeat after `Retry-After`.
    """


class SettlementStoppedError(ProblemError, code="settlement_stopped"):
    """No payment is settled at present.

    HTTP 503. An operator or the clock guard has stopped settlement: `postdate settlement status`
    says why. Nothing was changed; repeat after `Retry-After`.
    """


class OutcomeUnknownError(ProblemError, code="outcome_unknown"):
    """It is not known whether this was saved.

    HTTP 503. Repeat the request with the same Idempotency-Key: the answer will be the true one.
    """


class CommitsNotDurableError(ProblemError, code="commits_not_durable"):
    """The database may lose what it confirms.

    HTTP 503. The operator mends its settings, or accepts the risk: `payment.unsafe_commits`.
    """


class SecretKeyMissingError(ProblemError, code="secret_key_missing"):
    """This node cannot read or keep secrets.

    HTTP 503. The operator gives every node the same POSTDATE_SECRET_KEY.
    """


class InternalError(ProblemError, code="internal"):
    """Something went wrong on our side.

    HTTP 500. Report the request id; the log has the rest.
    """


BY_CODE: Final = {each.own_code: each for each in ProblemError.__subclasses__()}
