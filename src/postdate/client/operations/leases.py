"""Operations of leases. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.leases import LeaseList, LeaseReport, RenewedLease
from postdate.client.operation import Operation

CLAIM_JOBS: Final = Operation(
    "claim_jobs", "POST", "/lanes/{lane}/claim", LeaseList, repeatable=False
)
COMPLETE_LEASE: Final = Operation(
    "complete_lease", "POST", "/leases/{job_id}/complete", LeaseReport, nulls=frozenset({"result"})
)
FAIL_LEASE: Final = Operation("fail_lease", "POST", "/leases/{job_id}/fail", LeaseReport)
RENEW_LEASE: Final = Operation("renew_lease", "POST", "/leases/{job_id}/renew", RenewedLease)
RELEASE_LEASE: Final = Operation("release_lease", "POST", "/leases/{job_id}/release", LeaseReport)
