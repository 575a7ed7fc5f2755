"""How log lines look: readable on a terminal, JSON otherwise, and never a secret."""

import logging
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TextIO, TypeAlias

import msgspec

from postdate.model import origin
from postdate.model.log import FIELDS, LOGGER

_SECRET_NAMES: Final = re.compile(
    r"authorization|password|secret|^key$|api_key|admin_key|token$|dsn|database_url|payload",
    re.IGNORECASE,
)
_SECRET_VALUES: Final = re.compile(
    r"pdk_[\w-]+|whsec_[\w+/=-]+|(?<=://)[^/@\s:]+:[^/@\s]+(?=@)|(?<=Bearer )\S+"
)
HIDDEN: Final = "[hidden]"
_FENCING: Final = "token"
"""A fencing token is a number and no secret; an access token is a text."""

_COLOURS: Final = {"debug": "2", "info": "32", "warning": "33", "error": "31"}

Line: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Line], None]
"""Adds to a line, or changes what it says."""


def add_origin(line: Line) -> None:
    """Add the request and tenant of a line, if there is a request."""
    if (came := origin.current()) is not None:
        line.setdefault("request_id", came.request_id)
        if came.tenant is not None:
            line.setdefault("tenant", came.tenant)


def redact(line: Line) -> None:
    """Hide what is secret by its name or recognisable by its form."""
    for name, value in line.items():
        line[name] = _clean(name, value)


def _clean(name: str, value: Any) -> Any:
    if _SECRET_NAMES.search(name) and not (name == _FENCING and isinstance(value, int)):
        return HIDDEN
    if isinstance(value, str):
        return _SECRET_VALUES.sub(HIDDEN, value)
    if isinstance(value, dict):
        return {key: _clean(str(key), item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean("", item) for item in value]
    return value


def configure(level: str, form: str, *more: Step) -> None:
    """Send every line to standard error in one format; of libraries only warnings and errors."""
    console = form == "console" or (form == "auto" and sys.stderr.isatty())
    handler = LineHandler(sys.stderr, as_text if console else as_json, more)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger(LOGGER).setLevel(level.upper())


class LineHandler(logging.Handler):
    """Writes our own lines and those of libraries, all in one form and without secrets."""

    def __init__(
        self, to: TextIO, render: Callable[[Line], str], more: Sequence[Step] = ()
    ) -> None:
        super().__init__()
        self._to = to
        self._render = render
        self._steps = (add_origin, *more)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        line = line_of(record)
        for step in self._steps:
            step(line)
        redact(line)
        at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        line |= {"level": record.levelname.lower(), "timestamp": at}
        self._to.write(self._render(line) + "\n")
        self._to.flush()


def line_of(record: logging.LogRecord) -> Line:
    """Return a record as a line: a library's error is named without its stack."""
    error = record.exc_info[1] if record.exc_info else None
    fields: Line | None = getattr(record, FIELDS, None)
    if fields is None:
        cause = None if error is None else f"{type(error).__name__}: {error}"
        said = record.getMessage()
        return {
            "event": "library.logged",
            "logger": record.name,
            "message": said,
            "error": cause,
        }
    line = {"event": record.msg, **fields}
    if record.exc_info and error is not None:
        # A traceback becomes text before redaction: its message may quote a secret.
        line["exception"] = logging.Formatter().formatException(record.exc_info)
    return line


def as_json(line: Line) -> str:
    """Write a line for programs."""
    return msgspec.json.encode(line, enc_hook=repr).decode()


def as_text(line: Line) -> str:
    """Write a line for people: the time, the level, the event, what belongs to it."""
    line = dict(line)
    level, trace = line.pop("level"), line.pop("exception", None)
    shown = f"\x1b[{_COLOURS.get(level, '31')}m{level:<8}\x1b[0m"
    head = f"{line.pop('timestamp')} {shown} {line.pop('event'):<30}"
    shown_fields = " ".join(f"{name}={value}" for name, value in line.items())
    return "\n".join(filter(None, [f"{head} {shown_fields}".rstrip(), trace]))
