"""Calls about leases. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.call import Group, K, call
from postdate.client.models.leases import LeaseList, LeaseReport, RenewedLease


class Leases(Group[K]):
    """What the API offers about leases."""

    @call("claim_jobs", "POST", "/lanes/{lane}/claim", repeatable=False)
    def claim(
        self,
        lane: str,
        *,
        max: int | UnsetType = UNSET,
        lease_seconds: float | timedelta | UnsetType = UNSET,
        wait_seconds: float | timedelta | UnsetType = UNSET,
    ) -> LeaseList:
        """Claim due jobs of a lane.

        Claims only jobs whose destination is a worker; waits if none is due.
        `lane`: The queue of jobs it belongs to: the unit of fairness, limits and pausing.
        `max`: The most jobs to claim.
        `lease_seconds`: How long a worker has before the job is given to another.
        `wait_seconds`: How long to wait when there is nothing yet.
        """

    @call("complete_lease", "POST", "/leases/{job_id}/complete")
    def complete(
        self, job_id: UUID | str, *, token: int, result: Any = UNSET, result_ref: str | None = None
    ) -> LeaseReport:
        """Complete a job.

        The token of the claim proves the lease; a stale one changes nothing.
        `job_id`: The job's id.
        `token`: The fencing token of the claim: proves that the lease is still yours.
        `result`: Any JSON, up to 64 KiB.
        `result_ref`: Where you have put a larger result; kept and shown as it is.
        """

    @call("fail_lease", "POST", "/leases/{job_id}/fail")
    def fail(
        self,
        job_id: UUID | str,
        *,
        token: int,
        error: str,
        code: str | UnsetType = UNSET,
        retryable: bool | UnsetType = UNSET,
        retry_after_seconds: float | timedelta | None = None,
        unknown: bool | UnsetType = UNSET,
    ) -> LeaseReport:
        """Fail an attempt; the job's policy decides what follows.

        The token of the claim proves the lease; a stale one changes nothing.
        `job_id`: The job's id.
        `token`: The fencing token of the claim: proves that the lease is still yours.
        `error`: What went wrong, in the words of whoever failed.
        `code`: A stable word for the reason.
        `retryable`: Whether another try makes sense.
        `retry_after_seconds`: When to try again, at the earliest.
        `unknown`: Whether it is not known if the work was done.
        """

    @call("release_lease", "POST", "/leases/{job_id}/release")
    def release(self, job_id: UUID | str, *, token: int) -> LeaseReport:
        """Release a job that was not started: it is due again, and no attempt is counted.

        The token of the claim proves the lease; a stale one changes nothing.
        `job_id`: The job's id.
        `token`: The fencing token of the claim: proves that the lease is still yours.
        """

    @call("renew_lease", "POST", "/leases/{job_id}/renew")
    def renew(
        self,
        job_id: UUID | str,
        *,
        token: int,
        lease_seconds: float | timedelta | UnsetType = UNSET,
    ) -> RenewedLease:
        """Renew a lease.

        The token of the claim proves the lease; a stale one changes nothing.
        `job_id`: The job's id.
        `token`: The fencing token of the claim: proves that the lease is still yours.
        `lease_seconds`: How long a worker has before the job is given to another.
        """

    @call("progress_lease", "POST", "/leases/{job_id}/progress")
    def progress(
        self,
        job_id: UUID | str,
        *,
        token: int,
        lease_seconds: float | timedelta | UnsetType = UNSET,
        percent: float | None = None,
        note: str | None = None,
        checkpoint: Any = UNSET,
        log: Sequence[str] | None = None,
    ) -> RenewedLease:
        """Report progress and renew the lease.

        The next attempt gets the last `checkpoint`; the lines of `log` are kept with this one.
        The token of the claim proves the lease; a stale one changes nothing.
        `job_id`: The job's id.
        `token`: The fencing token of the claim: proves that the lease is still yours.
        `lease_seconds`: How long a worker has before the job is given to another.
        `percent`: How much is done, 0 to 100.
        `note`: What the worker is doing now.
        `checkpoint`: Any JSON, up to 16 KiB: the next attempt gets the last one.
        `log`: Lines that are kept with this attempt.
        """
