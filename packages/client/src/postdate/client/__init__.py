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
from postdate.client.webhook import Delivery, verify_webhook
from postdate.client.worker import (
    GiveUpError,
    InDoubtError,
    KeyRefusedError,
    RetryLaterError,
    Worker,
)

__all__ = [
    "AsyncClient",
    "Client",
    "ConfigurationError",
    "Delivery",
    "GiveUpError",
    "InDoubtError",
    "KeyRefusedError",
    "Lease",
    "PostdateError",
    "ProblemError",
    "RetryLaterError",
    "SignatureError",
    "UnexpectedAnswerError",
    "UnreachableError",
    "WaitTimeoutError",
    "Worker",
    "once",
    "once_sync",
    "verify_webhook",
]
