"""The body of a refusal (RFC 9457), as the API writes it and the client reads it."""

import msgspec

from postdate.words.error import Code


class FieldProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a body."""

    field: str
    code: Code
    detail: str
    allowed: list[str] | None = None
    nearest: str | None = None


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was refused; some codes add members of their own."""

    type: str
    title: str
    status: int
    detail: str
    code: Code
    request_id: str
    field: str | None = None
    problems: list[FieldProblem] | None = None
