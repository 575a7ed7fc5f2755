"""Calls about leases. Written by `make docs` from the endpoints."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from msgspec import UNSET, UnsetType

from postdate.client.group import Group
from postdate.client.models.leases import LeaseList, LeaseReport, RenewedLease
from postdate.client.operations import leases as operations


class Leases(Group):
    """What the API offers about leases."""

    def claim(
        self,
        lane: str,
        *,
        max: int | UnsetType = UNSET,
        lease_seconds: float | timedelta | UnsetType = UNSET,
        wait_seconds: float | timedelta | UnsetType = UNSET,
    ) -> LeaseList:
        """Claim due jobs of a lane.

        Only jobs whose destination is a worker; with none due, waits for some.
        """
        return self._send(
            operations.CLAIM_JOBS,
            path={"lane": lane},
            body={"max": max, "lease_seconds": lease_seconds, "wait_seconds": wait_seconds},
        )

    def complete(self, job_id: UUID | str, *, token: int, result: Any = UNSET) -> LeaseReport:
        """Record that a job was done.

        The token of the claim proves the lease; a stale one changes nothing.
        """
        return self._send(
            operations.COMPLETE_LEASE,
            path={"job_id": job_id},
            body={"token": token, "result": result},
        )

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
        """Record that an attempt failed; the job's policy says what follows.

        The token of the claim proves the lease; a stale one changes nothing.
        """
        return self._send(
            operations.FAIL_LEASE,
            path={"job_id": job_id},
            body={
                "token": token,
                "error": error,
                "code": code,
                "retryable": retryable,
                "retry_after_seconds": retry_after_seconds,
                "unknown": unknown,
            },
        )

    def renew(
        self,
        job_id: UUID | str,
        *,
        token: int,
        lease_seconds: float | timedelta | UnsetType = UNSET,
    ) -> RenewedLease:
        """Keep a lease for longer.

        The token of the claim proves the lease; a stale one changes nothing.
        """
        return self._send(
            operations.RENEW_LEASE,
            path={"job_id": job_id},
            body={"token": token, "lease_seconds": lease_seconds},
        )

    def release(self, job_id: UUID | str, *, token: int) -> LeaseReport:
        """Release a job that was not started: it is due again, and no attempt is counted.

        The token of the claim proves the lease; a stale one changes nothing.
        """
        return self._send(operations.RELEASE_LEASE, path={"job_id": job_id}, body={"token": token})
