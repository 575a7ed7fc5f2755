"""Operations of jobs. Written by `make docs` from the endpoints."""

from typing import Final

from postdate.client.models.jobs import AttemptList, BulkOutcome, CancelledJob, JobList, JobOutcomes
from postdate.client.models.shared import Job
from postdate.client.operation import Operation

CREATE_JOB: Final = Operation(
    "create_job", "POST", "/jobs", Job, keyed=True, nulls=frozenset({"payload"})
)
CREATE_JOBS: Final = Operation("create_jobs", "POST", "/jobs/batch", JobOutcomes, batch="jobs")
LIST_JOBS: Final = Operation("list_jobs", "GET", "/jobs", JobList)
SHOW_JOB: Final = Operation("show_job", "GET", "/jobs/{job_id}", Job)
LIST_JOB_ATTEMPTS: Final = Operation(
    "list_job_attempts", "GET", "/jobs/{job_id}/attempts", AttemptList
)
CHANGE_JOB: Final = Operation(
    "change_job",
    "PATCH",
    "/jobs/{job_id}",
    Job,
    nulls=frozenset({"payload", "retry", "timeout_seconds", "expires_at"}),
)
CANCEL_JOB: Final = Operation("cancel_job", "POST", "/jobs/{job_id}/cancel", CancelledJob)
RUN_JOB_NOW: Final = Operation("run_job_now", "POST", "/jobs/{job_id}/run-now", Job)
RESOLVE_JOB: Final = Operation("resolve_job", "POST", "/jobs/{job_id}/resolve", Job)
CANCEL_JOBS: Final = Operation(
    "cancel_jobs", "POST", "/jobs/bulk/cancel", BulkOutcome, repeatable=False
)
RESCHEDULE_JOBS: Final = Operation(
    "reschedule_jobs", "POST", "/jobs/bulk/reschedule", BulkOutcome, repeatable=False
)
