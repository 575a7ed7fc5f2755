"""The statuses of jobs and payments, and which may follow which.

No row stores a status: it follows from the timer, its lease and the outcome. An outcome's key
admits one end, and only who locks the timer writes it, so that a final status never changes. The
tables below describe that for readers (ARCHITECTURE.md draws them); no code asks them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class JobStatus(StrEnum):
    """Where a job stands; READY is PENDING whose instant has come."""

    PENDING = "PENDING"
    READY = "READY"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    UNKNOWN = "UNKNOWN"


class PaymentStatus(StrEnum):
    """Where a payment stands."""

    PENDING = "PENDING"
    EXECUTING = "EXECUTING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


JOB_MOVES: Final[Mapping[JobStatus, frozenset[JobStatus]]] = {
    JobStatus.PENDING: frozenset({JobStatus.READY, JobStatus.CANCELLED}),
    JobStatus.READY: frozenset(
        {
            JobStatus.PENDING,  # rescheduled
            JobStatus.RUNNING,
            JobStatus.FAILED,  # expired, or its attempts were used up by dying workers
            JobStatus.CANCELLED,
        }
    ),
    JobStatus.RUNNING: frozenset(
        {
            JobStatus.PENDING,  # a retry
            JobStatus.READY,  # the lease ran out
            JobStatus.COMPLETED,
            JobStatus.FAILED,
            JobStatus.CANCELLED,
            JobStatus.UNKNOWN,
        }
    ),
    JobStatus.UNKNOWN: frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.PENDING}),
    JobStatus.COMPLETED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELLED: frozenset(),
}

PAYMENT_MOVES: Final[Mapping[PaymentStatus, frozenset[PaymentStatus]]] = {
    PaymentStatus.PENDING: frozenset({PaymentStatus.EXECUTING, PaymentStatus.CANCELLED}),
    PaymentStatus.EXECUTING: frozenset(
        {
            PaymentStatus.PENDING,  # a transient failure, retried later
            PaymentStatus.COMPLETED,
            PaymentStatus.FAILED,
            PaymentStatus.CANCELLED,  # a dead letter that is given up
        }
    ),
    PaymentStatus.COMPLETED: frozenset(),
    PaymentStatus.FAILED: frozenset(),
    PaymentStatus.CANCELLED: frozenset(),
}

PAYMENT_FINAL: Final = frozenset(s for s, after in PAYMENT_MOVES.items() if not after)
