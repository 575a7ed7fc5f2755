"""Operations of leases. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.leases import LeaseList, LeaseReport, RenewedLease
from postdate.client.operation import Operation

CLAIM: Final = Operation("claim", "POST", "/lanes/{lane}/claim", LeaseList, repeatable=False)
COMPLETE: Final = Operation(
    "complete", "POST", "/leases/{job_id}/complete", LeaseReport, nulls=frozenset({"result"})
)
FAIL: Final = Operation("fail", "POST", "/leases/{job_id}/fail", LeaseReport)
RENEW: Final = Operation("renew", "POST", "/leases/{job_id}/renew", RenewedLease)
RELEASE_LEASE: Final = Operation("release_lease", "POST", "/leases/{job_id}/release", LeaseReport)
