"""The Python SDK: talks HTTP only."""

from postdate.client.client import AsyncClient, Client, ProblemError, UnreachableError
from postdate.client.worker import GiveUpError, InDoubtError, Lease, RetryLaterError, Worker

__all__ = [
    "AsyncClient",
    "Client",
    "GiveUpError",
    "InDoubtError",
    "Lease",
    "ProblemError",
    "RetryLaterError",
    "UnreachableError",
    "Worker",
]
