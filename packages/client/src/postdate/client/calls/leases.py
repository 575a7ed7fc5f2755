"""Calls about leases. Written by `make docs` from the endpoints."""

# mypy: disable-error-code="empty-body"

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
        """

    @call("complete_lease", "POST", "/leases/{job_id}/complete")
    def complete(self, job_id: UUID | str, *, token: int, result: Any = UNSET) -> LeaseReport:
        """Complete a job.

        The token of the claim proves the lease; a stale one changes nothing.
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
        """

    @call("release_lease", "POST", "/leases/{job_id}/release")
    def release(self, job_id: UUID | str, *, token: int) -> LeaseReport:
        """Release a job that was not started: it is due again, and no attempt is counted.

        The token of the claim proves the lease; a stale one changes nothing.
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
        """
