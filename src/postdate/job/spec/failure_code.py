"""What ended an attempt that did not succeed: the codes, their classes, and what each means."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from postdate.job.spec.verdict import EXPIRED, TOO_OLD, WORKER_LOST


class FailureCode(NamedTuple):
    """The class under which metrics count a code, and an explanation for people."""

    counted_as: str
    meaning: str


FAILURE_CODES: Final[Mapping[str, FailureCode]] = {
    "answer_broken": FailureCode(
        "timeout", "The answer began and broke off; the effect is in doubt."
    ),
    "broker_unavailable": FailureCode("connect", "The message broker could not be reached."),
    "connect_failed": FailureCode("connect", "No connection to the receiver; nothing was sent."),
    "connect_timeout": FailureCode("connect", "No connection in time; nothing was sent."),
    "credentials_refused": FailureCode(
        "refused", "The broker refused the destination's credentials."
    ),
    "deadline_exceeded": FailureCode("timeout", "The worker's handler took longer than its time."),
    "destination_disabled": FailureCode("refused", "The named destination is disabled."),
    "destination_gone": FailureCode(
        "refused", "The receiver answered 410, which disables its destination."
    ),
    "destination_mismatch": FailureCode(
        "refused", "The named destination is of another type than the job asks for."
    ),
    "destination_missing": FailureCode("refused", "The named destination does not exist any more."),
    "dns_failed": FailureCode("connect", "The receiver's name could not be resolved."),
    "exchange_missing": FailureCode("refused", "The broker has no such exchange."),
    EXPIRED: FailureCode("expired", "`expires_at` passed before the job could run."),
    "handler_error": FailureCode("other", "An unexpected error inside the server; in doubt."),
    "handler_lost": FailureCode("lost", "The handler of an attempt disappeared; in doubt."),
    "handler_timeout": FailureCode("timeout", "A handler inside the server took too long."),
    "http_429": FailureCode(
        "busy", "The receiver asked for fewer calls; `Retry-After` is honoured."
    ),
    "http_503": FailureCode("busy", "The receiver was overloaded; `Retry-After` is honoured."),
    "invalid_url": FailureCode("refused", "The destination's address is not valid."),
    "kind_missing": FailureCode("refused", "This node has no client for that kind of broker."),
    "lease_lost": FailureCode("lost", "The lease ran out, and another worker has the job."),
    "lookup_busy": FailureCode("connect", "Too many names are being resolved; nothing was sent."),
    "message_refused": FailureCode("refused", "The broker refused the message."),
    "message_too_large": FailureCode("refused", "The message is larger than the broker admits."),
    "no_answer": FailureCode(
        "timeout", "The connection broke after the request was sent; the effect is in doubt."
    ),
    "no_handler": FailureCode("refused", "No worker has a handler for the job's `kind`."),
    "not_sent": FailureCode("connect", "The message could not be sent to the broker."),
    "subject_missing": FailureCode("refused", "Neither the job nor its destination has a subject."),
    "target_not_allowed": FailureCode(
        "refused", "The address is in a private network that outgoing calls may not reach."
    ),
    "target_refused": FailureCode("refused", "The broker's address is not allowed."),
    "timeout": FailureCode(
        "timeout", "No answer within `timeout_seconds`; the effect is in doubt."
    ),
    "tls_failed": FailureCode("connect", "The TLS handshake failed; the error names the reason."),
    TOO_OLD: FailureCode("expired", "The job was older than `retry.max_age_seconds`."),
    "unconfirmed": FailureCode("timeout", "The broker did not confirm the message; in doubt."),
    "worker_failed": FailureCode("other", "The worker's handler raised an error without a code."),
    WORKER_LOST: FailureCode(
        "lost", "The worker disappeared while it had the job; the effect is in doubt."
    ),
    "worker_stopped": FailureCode("lost", "The node was stopped before the attempt ended."),
}
"""A webhook's answer is `http_` and its status; a worker may report any code of its own."""
