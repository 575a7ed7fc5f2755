"""The Python SDK: talks HTTP only."""

from postdate.client.client import AsyncClient, Client, ProblemError, UnreachableError

__all__ = ["AsyncClient", "Client", "ProblemError", "UnreachableError"]
