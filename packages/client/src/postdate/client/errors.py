"""What goes wrong when a server is called."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, ClassVar, Final

from postdate.words.error import EXPLANATIONS, Code

SERVER_ERROR: Final = HTTPStatus.INTERNAL_SERVER_ERROR
TOO_MANY_REQUESTS: Final = HTTPStatus.TOO_MANY_REQUESTS


class PostdateError(Exception):
    """The base of everything the client raises on its own account.

    `idempotency_key` is the key that the request carried, given or made: call again with it, and
    what was perhaps done is not done twice.
    """

    idempotency_key: str | None = None


class ConfigurationError(PostdateError):
    """The client cannot be made: the address or the key is missing or wrong."""


class ProblemError(PostdateError):
    """The server refused: a stable `code`, the HTTP `status`, and what else it said.

    Each code has its class in `postdate.client.problems`, so that `except NotFoundError` is enough.
    """

    own_code: ClassVar[str] = ""

    def __init_subclass__(cls, *, code: Code | None = None) -> None:
        """Remember the code that a class stands for, and document it by the table of errors."""
        super().__init_subclass__()
        if code is not None:
            cls.own_code = code
            said = EXPLANATIONS[code]
            cls.__doc__ = f"{said.title}.\n\nHTTP {said.status}. {said.advice}"

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("detail", f"HTTP {status}")))
        self.status = status
        self.code = str(body.get("code", "unknown"))
        self.detail = str(self.args[0])
        self.field: str | None = body.get("field")
        self.request_id: str | None = body.get("request_id")
        self.retry_after_seconds: float | None = None
        self.body = body

    def __str__(self) -> str:
        """Return the server's detail, and the code to look up."""
        place = f" ({self.body['field']})" if self.body.get("field") else ""
        code = f" [{self.body['code']}]" if self.body.get("code") else ""
        return f"{self.args[0]}{place}{code}"


class UnreachableError(PostdateError):
    """Nobody answered. `maybe_done`: what was asked for may have been done all the same."""

    def __init__(self, message: str, *, maybe_done: bool) -> None:
        super().__init__(message)
        self.maybe_done = maybe_done


def is_passing(error: PostdateError) -> bool:
    """Return whether the same request may succeed later: no answer, or a server that is busy."""
    if isinstance(error, ProblemError):
        return error.status >= SERVER_ERROR or error.status == TOO_MANY_REQUESTS
    return isinstance(error, UnreachableError)


class UnexpectedAnswerError(PostdateError):
    """What answered is no Postdate, or one that this client does not understand."""


class WaitTimeoutError(PostdateError):
    """It has not ended in the time that was given; `status` is where it stands."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


class SignatureError(PostdateError):
    """A call that pretends to be a webhook of ours, was changed, or is too old."""
