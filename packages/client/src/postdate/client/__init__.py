"""The Python SDK: talks HTTP only."""

from postdate.client.client import AsyncClient, Client
from postdate.client.errors import (
    ConfigurationError,
    PostdateError,
    ProblemError,
    SignatureError,
    UnexpectedAnswerError,
    UnreachableError,
    WaitTimeoutError,
)
from postdate.client.models.leases import Lease
from postdate.client.once import once, once_sync
from postdate.client.running_job import AsyncRunningJob, RunningJob
from postdate.client.webhook import Delivery, verify_webhook
from postdate.client.worker import (
    GiveUpError,
    InDoubtError,
    JobCancelledError,
    KeyRefusedError,
    ResultRef,
    RetryLaterError,
    Worker,
)

__all__ = [
    "AsyncClient",
    "AsyncRunningJob",
    "Client",
    "ConfigurationError",
    "Delivery",
    "GiveUpError",
    "InDoubtError",
    "JobCancelledError",
    "KeyRefusedError",
    "Lease",
    "PostdateError",
    "ProblemError",
    "ResultRef",
    "RetryLaterError",
    "RunningJob",
    "SignatureError",
    "UnexpectedAnswerError",
    "UnreachableError",
    "WaitTimeoutError",
    "Worker",
    "once",
    "once_sync",
    "verify_webhook",
]
