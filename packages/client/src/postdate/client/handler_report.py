"""How a function ended, in the words of the API."""

import re
import traceback
from typing import Any, Final

import msgspec

ERROR_CHARACTERS: Final = 2000
"""The most that an attempt keeps of an error."""

RESULT_BYTES: Final = 64 * 1024
"""The most that a job keeps of what a function returned."""

ADDRESS_CHARACTERS: Final = 2048
"""The longest address of a result that is kept elsewhere."""

HANDLER_ERROR: Final = "handler_error"
BAD_RESULT: Final = "bad_result"
"""Codes of attempts whose error begins with the class of an exception."""

_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
"""U+0000 in JSON: the server refuses it, and the report of work that was done would be lost."""


class RetryLaterError(Exception):
    """Raise it to fail this attempt and say how soon the next one may come."""

    def __init__(self, error: str, seconds: float | None = None) -> None:
        super().__init__(error)
        self.seconds = seconds


class GiveUpError(Exception):
    """Raise it when no further attempt can succeed; `code` is for machines."""

    def __init__(self, error: str, code: str = "gave_up") -> None:
        super().__init__(error)
        self.code = code


class ExitedError(Exception):
    """A function asked for the end of the program: its attempt has failed, the worker goes on."""


class InDoubtError(Exception):
    """Raise it when nobody can say whether it was done."""


class JobCancelledError(Exception):
    """Raise it to stop a job that is to be cancelled (`job.cancelled`)."""

    def __init__(self, message: str = "the function stopped because the job was cancelled") -> None:
        super().__init__(message)


class ResultRef(msgspec.Struct, frozen=True):
    """Return it to keep the address of a result that is larger than 64 KiB."""

    address: str


class HandlerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is reported: done with a result, or failed with an error."""

    done: bool
    result: Any = msgspec.UNSET
    result_ref: str | None = None
    error: str = ""
    code: str = "worker_failed"
    retryable: bool = True
    retry_after_seconds: float | None = None
    unknown: bool = False


def returned(value: Any) -> HandlerReport:
    """Report success with the result; say why, if the result cannot be kept."""
    if value is None:
        return HandlerReport(done=True)
    if isinstance(value, ResultRef):
        return _stored_at(value.address)
    try:
        written = msgspec.json.encode(value)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        return _not_kept(f"the result is no JSON: {error}")
    if len(written) > RESULT_BYTES:
        return _not_kept(f"the result has {len(written):,} bytes of {RESULT_BYTES:,}")
    if _NUL.search(written):
        return _not_kept("the result has the character U+0000, which cannot be stored")
    return HandlerReport(done=True, result=value)


def _stored_at(address: str) -> HandlerReport:
    if 0 < len(address) <= ADDRESS_CHARACTERS and storable(address) == address:
        return HandlerReport(done=True, result_ref=address)
    return _not_kept(f"the address of the result has not 1 to {ADDRESS_CHARACTERS:,} characters")


def _not_kept(why: str) -> HandlerReport:
    return HandlerReport(done=True, result={"not_kept": storable(why)})


def kept(ending: HandlerReport) -> bool:
    """Return whether the result of work that was done is kept as it was returned."""
    return not (isinstance(ending.result, dict) and "not_kept" in ending.result)


def raised(error: BaseException) -> HandlerReport:
    """Put what a function raised into words; a surprise has its traceback with it."""
    match error:
        case RetryLaterError():
            return HandlerReport(
                done=False,
                error=_text(error),
                retry_after_seconds=error.seconds,
                code="retry_later",
            )
        case GiveUpError():
            return HandlerReport(done=False, error=_text(error), code=error.code, retryable=False)
        case JobCancelledError():
            return HandlerReport(done=False, error=_text(error), code="cancelled")
        case InDoubtError():
            return HandlerReport(done=False, error=_text(error), code="in_doubt", unknown=True)
        case ExitedError(__cause__=SystemExit() as cause):
            return raised(cause)
        case _:
            return HandlerReport(done=False, error=_traced(error), code=HANDLER_ERROR)


def late(seconds: float) -> HandlerReport:
    """Report that a function overran its time, so that its effect is unknown."""
    error = f"it was not done within its {seconds:g} s"
    return HandlerReport(done=False, error=error, code="deadline_exceeded", unknown=True)


def unhandled(lane: str, kind: str | None) -> HandlerReport:
    """Report that this worker has no handler for the job; another may have one."""
    work = f"the kind {kind!r}" if kind else "jobs without a kind"
    return HandlerReport(
        done=False, error=f"no handler for {work} in lane {lane!r}", code="no_handler"
    )


def _text(error: BaseException) -> str:
    return storable(str(error))[:ERROR_CHARACTERS] or type(error).__name__


def storable(text: str) -> str:
    """Write out what PostgreSQL cannot store: U+0000, and halves of surrogate pairs."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _traced(error: BaseException) -> str:
    """Return what was raised, then as much of the traceback's end as is kept."""
    said = storable(f"{_class(error)}: {error}")[: ERROR_CHARACTERS // 2]
    trace = storable("".join(traceback.format_exception(error)))
    room = ERROR_CHARACTERS - len(said) - 2
    return f"{said}\n\n{trace[-room:].strip()}"


def _class(error: BaseException) -> str:
    """Name a class as tracebacks do: with its module, unless every program has it."""
    kind = type(error)
    return (
        kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    )
